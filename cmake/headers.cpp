// Nothing but the precompiled headers of the product.
