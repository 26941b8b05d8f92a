"""OpenDP's domains, metrics, transformations and measurements, made from designs: the only room that imports OpenDP."""
