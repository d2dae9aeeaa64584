//! Link, ARP, IP, ICMP, UDP and TCP as braidnet modules.
