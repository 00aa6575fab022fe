"""A kernel, a sampler and a code generator that entry points add to hvxtune."""
