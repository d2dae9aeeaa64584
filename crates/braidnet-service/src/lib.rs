//! Services that a braidnet stack offers: echo, discard, daytime, chargen and HTTP.
