// The routes, read from the service's own description, by Swagger UI within our page. No address
// of another host: the badge of Swagger's validator, which has one, is left out.
(() => {
  "use strict";

  // What a screen reader or a keyboard would stumble over in Swagger's own parts is replaced: a
  // second <main>, links within buttons, and controls without names.
  const AsOurs = ({ React }) => {
    const make = React.createElement;

    const Layout = ({ getComponent, specSelectors }) => {
      const part = (name) => make(getComponent(name, true));
      const shown = (...inside) => make("div", { className: "swagger-ui" }, ...inside);
      if (specSelectors.loadingStatus() === "failed") return shown(part("errors"));
      if (!specSelectors.specStr()) return shown(make("p", { role: "status" }, "Loading the routes."));
      return shown(
        make(getComponent("SvgAssets")),
        part("InfoContainer"),
        make(
          "div",
          { className: "section-head" },
          make("h2", null, "Routes"),
          part("AuthorizeBtnContainer"),
        ),
        part("errors"),
        part("operations"),
        part("Models"),
      );
    };

    const named = (Field) => (given) =>
      make("label", null, make("span", { className: "visually-hidden" }, given.description), make(Field, given));

    // Swagger calls its tables of answers regions, all without a name.
    const asTable = (Responses) => (given) => {
      const around = React.useRef(null);
      React.useEffect(() => around.current.querySelector("[role=region]")?.removeAttribute("role"));
      return make("div", { ref: around }, make(Responses, given));
    };

    return {
      components: { Layout },
      wrapComponents: {
        DeepLink: () => ({ text }) => make("span", null, text),
        CloseIcon: (Icon) => () =>
          make(React.Fragment, null, make(Icon), make("span", { className: "visually-hidden" }, "Close")),
        JsonSchema_boolean: named,
        JsonSchema_string: named,
        responses: asTable,
        TextArea: (Area) => (given) => make(Area, { "aria-label": "Request body", ...given }),
      },
    };
  };

  // Swagger's dark colours hang on a class.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    const chosen = document.documentElement.dataset.theme;
    document.documentElement.classList.toggle("dark-mode", chosen ? chosen === "dark" : system.matches);
  };
  follow();
  system.addEventListener("change", follow);
  document.addEventListener("themechange", follow);

  window.addEventListener("load", () => {
    SwaggerUIBundle({
      url: document.querySelector("#routes").dataset.description,
      dom_id: "#routes",
      layout: "Layout",
      plugins: [AsOurs],
      deepLinking: true,
      validatorUrl: null,
      syntaxHighlight: { theme: "tomorrow-night" },
    });
  });
})();
