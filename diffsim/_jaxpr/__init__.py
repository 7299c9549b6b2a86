"""All that reads jaxprs, binds primitives or leans on JAX's extension interfaces."""
