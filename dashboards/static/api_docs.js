// The routes, read from the service's own description. No address of another host: the badge of
// Swagger's validator, which has one, is left out.
window.addEventListener("load", () => {
  SwaggerUIBundle({
    url: document.querySelector("#routes").dataset.description,
    dom_id: "#routes",
    deepLinking: true,
    validatorUrl: null,
  });
});
