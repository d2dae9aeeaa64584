//! Modules, junctions, perimeters, buckets and processors for braidnet.
