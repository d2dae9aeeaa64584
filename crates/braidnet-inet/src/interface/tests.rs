//! What is refused, which addresses are told apart, and where packets go.

use super::*;

fn v4(text: &str) -> Address {
    Address::from(text.parse::<core::net::IpAddr>().unwrap())
}

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

fn config(addresses: &[(&str, Option<u8>)]) -> InterfaceConfig {
    InterfaceConfig {
        addresses: addresses
            .iter()
            .map(|(address, prefix)| (v4(address), *prefix))
            .collect(),
        mtu: 1500,
        mac: Some(MAC),
        routes: Vec::new(),
        others: Vec::new(),
        forwards: false,
    }
}

fn route((prefix, gateway): &(&str, &str)) -> Route {
    Route::via(prefix.parse().unwrap(), v4(gateway))
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    let good = config(&[("10.0.0.2", Some(24))]);
    let with_routes = |routes: &[(&str, &str)]| InterfaceConfig {
        routes: routes.iter().map(route).collect(),
        ..good.clone()
    };
    let with_gateway = |address| with_routes(&[("default", address)]);
    let rows = [
        (config(&[]), "an interface needs at least one address"),
        (
            config(&[("fd00::1", None)]),
            "fd00::1 is an IPv6 address, and this stack speaks IPv4 only",
        ),
        (
            config(&[("0.0.0.0", None)]),
            "0.0.0.0 is not an address that a host can have",
        ),
        (
            config(&[("127.0.0.1", Some(8))]),
            "127.0.0.1 is not an address that a host can have",
        ),
        (
            config(&[("224.0.0.1", None)]),
            "224.0.0.1 is not an address that a host can have",
        ),
        (
            config(&[("255.255.255.255", None)]),
            "255.255.255.255 is not an address that a host can have",
        ),
        (
            config(&[("10.0.0.2", Some(33))]),
            "10.0.0.2/33: the prefix of an IPv4 address has at most 32 bits",
        ),
        (
            config(&[("10.0.0.0", Some(24))]),
            "10.0.0.0/24 names a network or its broadcast address, not a host on it",
        ),
        (
            config(&[("10.0.0.255", Some(24))]),
            "10.0.0.255/24 names a network or its broadcast address, not a host on it",
        ),
        (
            config(&[("10.0.0.2", None), ("10.0.0.2", Some(8))]),
            "the address 10.0.0.2 is given twice",
        ),
        (
            config(&vec![("10.0.0.2", None); 65]),
            "an interface has at most 64 addresses, and 65 are given",
        ),
        (
            InterfaceConfig {
                mac: None,
                ..with_gateway("10.0.0.1")
            },
            "the gateway 10.0.0.1 is of no use on a device that carries bare IP packets",
        ),
        (
            with_gateway("10.0.1.1"),
            "the gateway 10.0.1.1 is on none of the interface's networks; give one of its addresses a prefix that covers it",
        ),
        (
            with_gateway("10.0.0.2"),
            "the gateway 10.0.0.2 is an address of the interface itself",
        ),
        (
            with_gateway("10.0.0.255"),
            "the gateway 10.0.0.255 is on none of the interface's networks; give one of its addresses a prefix that covers it",
        ),
        (
            with_routes(&[("10.9.0.0/16", "10.0.0.1"), ("10.9.0.0/16", "10.0.0.3")]),
            "two routes are given for 10.9.0.0/16",
        ),
        (
            with_routes(&[("10.0.0.0/24", "10.0.0.1")]),
            "10.0.0.0/24 is a network of the interface itself: what is for it needs no gateway",
        ),
        (
            with_routes(&[("default", "10.0.0.1"); 1025]),
            "a stack has at most 1024 routes, and 1025 are given",
        ),
        (
            InterfaceConfig {
                mtu: 67,
                ..good.clone()
            },
            "an MTU of 67 bytes is not between 68 and 65535",
        ),
        (
            InterfaceConfig {
                mtu: 65536,
                ..good.clone()
            },
            "an MTU of 65536 bytes is not between 68 and 65535",
        ),
        (
            InterfaceConfig {
                mac: Some(MacAddress([1, 0, 0, 0, 0, 0])),
                ..good.clone()
            },
            "01:00:00:00:00:00 is not the address of one station",
        ),
        (
            InterfaceConfig {
                mac: Some(MacAddress([0; 6])),
                ..good.clone()
            },
            "00:00:00:00:00:00 is not the address of one station",
        ),
    ];
    for (config, sentence) in rows {
        assert_eq!(Interface::new(config).unwrap_err().to_string(), sentence);
    }
    let edges = [
        ("10.0.0.2", Some(0)),
        ("10.0.0.4", Some(31)),
        ("10.0.0.7", Some(32)),
        ("10.0.0.8", None),
    ];
    Interface::new(config(&edges)).unwrap();
}

#[test]
fn addresses_are_told_apart() {
    let interface = Interface::new(config(&[
        ("10.0.0.2", Some(24)),
        ("10.1.0.2", Some(31)),
        ("10.2.0.2", None),
    ]))
    .unwrap();
    // (address, local, broadcast, peer, on link)
    let rows = [
        ("10.0.0.2", true, false, false, true),
        ("10.2.0.2", true, false, false, false),
        ("10.0.0.1", false, false, true, true),
        ("10.0.0.255", false, true, false, true),
        ("10.1.0.3", false, false, true, true),
        ("255.255.255.255", false, true, false, false),
        ("192.0.2.1", false, false, true, false),
        ("0.0.0.0", false, false, false, false),
        ("127.0.0.1", false, false, false, false),
        ("239.1.2.3", false, false, false, false),
        ("fd00::1", false, false, false, false),
    ];
    for (address, local, broadcast, peer, on_link) in rows {
        let address = v4(address);
        assert_eq!(interface.is_local(&address), local, "{address}");
        assert_eq!(interface.is_broadcast(&address), broadcast, "{address}");
        assert_eq!(interface.is_peer(&address), peer, "{address}");
        assert_eq!(interface.is_on_link(&address), on_link, "{address}");
    }
    for (destination, source) in [
        ("10.1.0.3", "10.1.0.2"),
        ("10.0.0.9", "10.0.0.2"),
        ("192.0.2.1", "10.0.0.2"),
    ] {
        assert_eq!(
            interface.source_for(&v4(destination)),
            v4(source),
            "{destination}"
        );
    }
}

#[test]
fn the_next_hop_is_the_destination_or_a_gateway() {
    let alone = config(&[("10.0.0.2", Some(24))]);
    let with = |routes: &[(&str, &str)]| InterfaceConfig {
        routes: routes.iter().map(route).collect(),
        ..alone.clone()
    };
    let routed = with(&[("default", "10.0.0.1")]);
    // Longer than the network, shorter, and nothing for all the rest.
    let apart = with(&[
        ("10.0.0.128/25", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.3"),
        ("10.9.0.0/16", "10.0.0.4"),
    ]);
    let rows = [
        (&alone, "10.0.0.9", Some("10.0.0.9"), false),
        (&alone, "192.0.2.1", Some("192.0.2.1"), true),
        (&routed, "10.0.0.9", Some("10.0.0.9"), false),
        (&routed, "192.0.2.1", Some("10.0.0.1"), false),
        (&routed, "255.255.255.255", Some("255.255.255.255"), false),
        (&routed, "10.0.0.255", Some("10.0.0.255"), false),
        (&routed, "224.0.0.9", Some("224.0.0.9"), false),
        (&apart, "10.0.0.9", Some("10.0.0.9"), false),
        (&apart, "10.0.0.130", Some("10.0.0.1"), false),
        (&apart, "10.0.0.255", Some("10.0.0.255"), false),
        (&apart, "10.1.0.1", Some("10.0.0.3"), false),
        (&apart, "10.9.255.255", Some("10.0.0.4"), false),
        (&apart, "10.10.0.0", Some("10.0.0.3"), false),
        (&apart, "192.0.2.1", None, false),
        (&apart, "255.255.255.255", Some("255.255.255.255"), false),
    ];
    for (config, destination, hop, learns) in rows {
        let interface = Interface::new(config.clone()).unwrap();
        let found = interface.way(v4(destination)).map(|way| way.hop);
        assert_eq!(found, hop.map(v4), "{destination}");
        assert_eq!(
            interface.reaches(&v4(destination)),
            hop.is_some(),
            "{destination}"
        );
        assert_eq!(
            interface.learns_from(&v4(destination)),
            learns,
            "{destination}"
        );
    }
}

#[test]
fn the_source_is_on_the_network_of_the_next_hop() {
    let interface = Interface::new(InterfaceConfig {
        routes: [("default", "10.1.0.1"), ("10.9.0.0/16", "10.0.0.1")]
            .iter()
            .map(route)
            .collect(),
        ..config(&[
            ("10.0.0.2", Some(24)),
            ("10.1.0.2", Some(24)),
            ("10.1.0.3", Some(24)),
        ])
    })
    .unwrap();
    let gateways = Vec::from_iter(interface.gateways_on(0));
    assert_eq!(gateways, [v4("10.0.0.1"), v4("10.1.0.1")]);
    for (destination, source) in [
        ("10.0.0.9", "10.0.0.2"),
        ("10.1.0.9", "10.1.0.2"),
        ("192.0.2.1", "10.1.0.2"),
        ("10.9.0.1", "10.0.0.2"),
    ] {
        assert_eq!(
            interface.source_for(&v4(destination)),
            v4(source),
            "{destination}"
        );
    }
}

#[test]
fn of_several_devices_the_route_says_which() {
    let attachment = |addresses: &[(&str, Option<u8>)], mtu| Attachment {
        addresses: config(addresses).addresses,
        mtu,
        mac: None,
    };
    let several = InterfaceConfig {
        mac: None,
        others: vec![
            attachment(&[("10.1.0.2", Some(24)), ("10.5.0.1", None)], 600),
            attachment(&[("10.1.0.130", Some(25))], 9000),
        ],
        routes: vec![
            route(&("10.9.0.0/16", "10.1.0.1")),
            route(&("10.8.0.0/16", "10.1.0.131")),
        ],
        ..config(&[("10.0.0.2", Some(24))])
    };
    let interface = Interface::new(several.clone()).unwrap();
    assert_eq!((interface.devices(), interface.mtu()), (3, 600));
    assert!(interface.is_local(&v4("10.5.0.1")) && interface.is_local(&v4("10.1.0.130")));
    let rows = [
        ("10.0.0.9", Some(("10.0.0.9", 0, "10.0.0.2"))),
        ("10.1.0.9", Some(("10.1.0.9", 1, "10.1.0.2"))),
        ("10.1.0.200", Some(("10.1.0.200", 2, "10.1.0.130"))),
        ("10.1.0.127", Some(("10.1.0.127", 1, "10.1.0.2"))),
        ("10.9.1.1", Some(("10.1.0.1", 1, "10.1.0.2"))),
        ("10.8.1.1", Some(("10.1.0.131", 2, "10.1.0.130"))),
        ("10.0.0.255", Some(("10.0.0.255", 0, "10.0.0.2"))),
        ("10.1.0.255", Some(("10.1.0.255", 2, "10.1.0.130"))),
        ("255.255.255.255", Some(("255.255.255.255", 0, "10.0.0.2"))),
        ("224.0.0.1", Some(("224.0.0.1", 0, "10.0.0.2"))),
        ("192.0.2.1", None),
    ];
    for (destination, expected) in rows {
        let destination = v4(destination);
        let found = interface.way(destination);
        let found = found.map(|way| (way.hop, way.device, interface.source_for(&destination)));
        let expected = expected.map(|(hop, device, source)| (v4(hop), device, v4(source)));
        assert_eq!(found, expected, "{destination}");
    }
    let refused = [
        (
            InterfaceConfig {
                others: vec![attachment(&[("10.1.0.2", Some(24))], 1500); 16],
                ..several.clone()
            },
            "a stack stands on at most 16 devices, and 17 are given",
        ),
        (
            InterfaceConfig {
                others: vec![attachment(&[], 1500)],
                ..several.clone()
            },
            "each of several devices needs an address with its network's prefix, such as 10.77.0.2/24, or a route that names it, and number 2 has none",
        ),
        (
            InterfaceConfig {
                addresses: config(&[("10.0.0.2", None)]).addresses,
                ..several.clone()
            },
            "each of several devices needs an address with its network's prefix, such as 10.77.0.2/24, or a route that names it, and number 1 has none",
        ),
        (
            InterfaceConfig {
                others: vec![attachment(&[("10.0.0.3", Some(24))], 1500)],
                ..several.clone()
            },
            "two devices are on the network 10.0.0.0/24: give each a network of its own, or say by a route what the second is for",
        ),
        (
            InterfaceConfig {
                others: vec![attachment(&[("10.0.0.2", None)], 1500)],
                ..several.clone()
            },
            "the address 10.0.0.2 is given twice",
        ),
        (
            InterfaceConfig {
                others: vec![attachment(&[("10.1.0.2", Some(24))], 67)],
                ..several
            },
            "an MTU of 67 bytes is not between 68 and 65535",
        ),
    ];
    for (config, sentence) in refused {
        assert_eq!(Interface::new(config).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn each_link_has_its_own_station_gateways_and_addresses() {
    let other = MacAddress([2, 0, 0, 0, 0, 9]);
    let interface = Interface::new(InterfaceConfig {
        others: vec![
            Attachment {
                addresses: config(&[("10.1.0.2", Some(24))]).addresses,
                mtu: 1500,
                mac: None,
            },
            Attachment {
                addresses: config(&[("10.2.0.3", Some(32)), ("10.2.0.2", Some(24))]).addresses,
                mtu: 1500,
                mac: Some(other),
            },
        ],
        routes: [
            ("10.9.0.0/16", "10.2.0.1"),
            ("10.8.0.0/16", "10.0.0.1"),
            ("10.7.0.0/16", "10.2.0.1"),
        ]
        .iter()
        .map(route)
        .collect(),
        ..config(&[("10.0.0.2", Some(24))])
    })
    .unwrap();
    assert_eq!(interface.stations(), [Some(MAC), None, Some(other)]);
    let gateways = [0, 1, 2].map(|device| Vec::from_iter(interface.gateways_on(device)));
    assert_eq!(
        gateways,
        [vec![v4("10.0.0.1")], vec![], vec![v4("10.2.0.1")]]
    );
    let rows = [
        ("10.0.0.2", 0, true, true, "10.0.0.2"),
        ("10.0.0.2", 2, false, false, "10.2.0.3"),
        ("10.2.0.9", 2, false, true, "10.2.0.2"),
        ("10.2.0.9", 1, false, false, "10.1.0.2"),
        ("10.2.0.2", 2, true, true, "10.2.0.2"),
        ("192.0.2.1", 0, false, false, "10.0.0.2"),
    ];
    for (address, device, is_ours, is_near, source) in rows {
        let case = format!("{address} by {device}");
        let address = v4(address);
        assert_eq!(interface.is_local_on(device, &address), is_ours, "{case}");
        assert_eq!(interface.is_near_on(device, &address), is_near, "{case}");
        assert_eq!(interface.source_on(device, &address), v4(source), "{case}");
    }
    // With routes, or other devices, nobody's station is remembered.
    assert!(!interface.learns());
}

#[test]
fn a_route_names_the_device_where_networks_do_not_tell() {
    let on = |addresses: &[(&str, Option<u8>)]| Attachment {
        addresses: config(addresses).addresses,
        mtu: 1500,
        mac: None,
    };
    let by = |prefix: &str, device| Route::by(prefix.parse().unwrap(), device);
    let via = |prefix: &str, gateway, device| Route {
        gateway: Some(v4(gateway)),
        ..by(prefix, device)
    };
    // Of one network with the first, without an address, and with one that is on no network.
    let several = InterfaceConfig {
        others: vec![
            on(&[("10.0.0.3", Some(24))]),
            on(&[]),
            on(&[("10.5.0.1", None)]),
        ],
        routes: vec![
            by("10.0.0.128/25", 1),
            by("10.6.0.0/16", 2),
            via("10.7.0.0/16", "192.0.2.1", 2),
            via("10.8.0.0/16", "10.0.0.9", 1),
            by("default", 3),
        ],
        ..config(&[("10.0.0.2", Some(24))])
    };
    let interface = Interface::new(several.clone()).unwrap();
    let rows = [
        ("10.0.0.9", ("10.0.0.9", 0, "10.0.0.2")),
        ("10.0.0.200", ("10.0.0.200", 1, "10.0.0.3")),
        ("10.6.1.1", ("10.6.1.1", 2, "10.0.0.2")),
        ("10.7.1.1", ("192.0.2.1", 2, "10.0.0.2")),
        ("10.8.1.1", ("10.0.0.9", 1, "10.0.0.3")),
        ("198.51.100.1", ("198.51.100.1", 3, "10.5.0.1")),
    ];
    for (destination, (hop, device, source)) in rows {
        let destination = v4(destination);
        let way = Way {
            hop: v4(hop),
            device,
        };
        assert_eq!(interface.way(destination), Some(way), "{destination}");
        let found = interface.source_for(&destination);
        assert_eq!(found, v4(source), "{destination}");
        let is_direct = way.hop == destination;
        assert_eq!(interface.is_near_on(device, &destination), is_direct);
    }
    assert_eq!(Vec::from_iter(interface.gateways_on(1)), [v4("10.0.0.9")]);
    assert_eq!(Vec::from_iter(interface.gateways_on(2)), [v4("192.0.2.1")]);
    // All of the network that two are on may be the second's.
    let second = InterfaceConfig {
        others: vec![on(&[("10.0.0.3", Some(24))])],
        routes: vec![by("10.0.0.0/24", 1)],
        ..several.clone()
    };
    let way = Interface::new(second).unwrap().way(v4("10.0.0.9"));
    assert_eq!(way.map(|way| way.device), Some(1));
    let refused = [
        (
            vec![by("10.6.0.0/16", 4)],
            "the route for 10.6.0.0/16 is by device number 5, and there are not so many",
        ),
        (
            vec![Route {
                device: None,
                ..by("10.6.0.0/16", 0)
            }],
            "the route for 10.6.0.0/16 leads nowhere: give it a gateway or a device",
        ),
        (
            vec![by("10.6.0.0/16", 1), by("10.6.0.0/16", 2)],
            "two routes are given for 10.6.0.0/16",
        ),
        (
            vec![via("10.0.0.0/24", "10.0.0.9", 1)],
            "10.0.0.0/24 is a network of the interface itself: what is for it needs no gateway",
        ),
    ];
    for (more, sentence) in refused {
        let mut config = several.clone();
        config.routes.extend(more);
        assert_eq!(Interface::new(config).unwrap_err().to_string(), sentence);
    }
    // By one device, no address is beyond it that has a route.
    let one = InterfaceConfig {
        mac: None,
        routes: vec![by("10.6.0.0/16", 0)],
        ..config(&[("10.0.0.2", None)])
    };
    let interface = Interface::new(one).unwrap();
    assert!(interface.reaches(&v4("10.6.0.1")) && !interface.reaches(&v4("10.7.0.1")));
}
