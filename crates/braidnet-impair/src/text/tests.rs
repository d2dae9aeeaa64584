use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<Impairments, ImpairmentError> {
    text.parse()
}

#[test]
fn every_word_says_what_it_should() {
    let all = "loss=1%,burst-loss=0.1%:20%:80%,duplicate=0.1%,corrupt=0.01%,delay=20ms,jitter=5ms:overtaking,\
        reorder=3%:1ms-5ms,rate=100mbit,burst=32k,queue=1M,ecn=64k,limit=1000,seed=7";
    let millis = Duration::from_millis;
    let rate = Rate {
        bits_per_second: NonZeroU64::new(100_000_000).unwrap(),
        burst_bytes: 32 << 10,
        queue_bytes: 1 << 20,
        mark_bytes: Some(64 << 10),
    };
    let expected = Impairments {
        loss: Share::per_mille(10),
        burst_loss: Some(BurstLoss {
            begin: Share::per_mille(1),
            end: Share::per_mille(200),
            loss: Share::per_mille(800),
        }),
        duplicate: Share::per_mille(1),
        corrupt: Share::parts_per_billion(100_000),
        delay: millis(20),
        jitter: Jitter {
            most: millis(5),
            overtaking: true,
        },
        reorder: Reorder {
            share: Share::per_mille(30),
            least: millis(1),
            most: millis(5),
        },
        rate: Some(rate),
        limit_packets: 1000,
        seed: 7,
    };
    assert_eq!(read(all), Ok(expected));
    assert_eq!(read(all).unwrap().to_string(), all);
}

#[test]
fn what_is_not_said_is_nothing() {
    for text in ["", " ", "none"] {
        assert_eq!(read(text), Ok(Impairments::none()), "{text:?}");
    }
    assert_eq!(Impairments::none().to_string(), "none");
    let rate = read("rate=1.5gbit").unwrap().rate.unwrap();
    assert_eq!(rate, Rate::new(NonZeroU64::new(1_500_000_000).unwrap()));
    let burst = read("burst-loss=1%:25%").unwrap().burst_loss.unwrap();
    assert_eq!(burst.loss, Share::ALL);
}

#[test]
fn texts_may_be_written_in_several_ways() {
    let rows = [
        ("delay=1000us", "delay=1ms"),
        ("delay=0.5ms , loss = 2%", "loss=2%,delay=500us"),
        ("delay=3µs", "delay=3us"),
        ("jitter=2s", "jitter=2s"),
        ("reorder=3%:5ms-5ms", "reorder=3%:5ms"),
        ("rate=1000kbit,queue=256k", "rate=1mbit"),
        ("rate=64bit,queue=0", "rate=64bit,queue=0"),
        ("loss=0.0000001%", "loss=0.0000001%"),
        ("loss=100%", "loss=100%"),
        ("seed=1,limit=65536", "none"),
    ];
    for (text, printed) in rows {
        assert_eq!(read(text).unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let rows = [
        (
            "los=1%",
            "`los` is not known here: there are loss, burst-loss, duplicate, corrupt, delay, jitter, reorder, rate, burst, queue, ecn, limit, seed",
        ),
        ("loss=1%,", "`` is not known here"),
        ("loss=1%,loss=2%", "loss is said twice"),
        ("loss=1", "loss takes a share such as 1% or 0.05%, not `1`"),
        ("loss", "loss takes a share such as 1% or 0.05%, not ``"),
        ("loss=101%", "loss takes a share"),
        ("loss=-1%", "loss takes a share"),
        ("loss=0.00000001%", "loss takes a share"),
        ("loss=1.%", "loss takes a share"),
        ("loss=.5%", "loss takes a share"),
        ("loss=%", "loss takes a share"),
        (
            "loss=99999999999999999999999999999999999999999999%",
            "loss takes a share",
        ),
        (
            "burst-loss=1%",
            "burst-loss takes how many packets begin a burst",
        ),
        ("burst-loss=1%:2%:3%:4%", "burst-loss takes"),
        (
            "delay=20",
            "delay takes a time up to 3600s such as 20ms or 150us, not `20`",
        ),
        ("delay=3601s", "delay takes a time up to 3600s"),
        ("delay=0.5ns", "delay takes a time"),
        (
            "jitter=5ms:overtake",
            "jitter takes a time up to 3600s such as 5ms, or 5ms:overtaking",
        ),
        ("reorder=5ms", "reorder takes a share and a time or two"),
        ("reorder=3%:5ms-1ms", "reorder takes"),
        ("rate=0bit", "rate takes bits per second"),
        (
            "rate=1001gbit",
            "rate takes bits per second, up to 1000gbit",
        ),
        ("rate=100", "rate takes bits per second"),
        ("queue=64k", "queue needs a rate, such as rate=100mbit"),
        ("burst=64k", "burst needs a rate"),
        ("ecn=64k", "ecn needs a rate"),
        (
            "rate=1mbit,queue=64q",
            "queue takes a number of bytes such as 64k or 1M, not `64q`",
        ),
        ("rate=1mbit,queue=99999999999999G", "queue takes"),
        ("limit=0", "limit takes a number of packets, 1 at least"),
        ("seed=x", "seed takes a number, not `x`"),
    ];
    for (text, sentence) in rows {
        let refused = read(text).expect_err(text).to_string();
        assert!(refused.starts_with(sentence), "{text}: {refused}");
        assert!(!refused.contains('\n'));
    }
}

/// What is printed is read as the same, and no text is too strange to be refused.
fn any_part() -> impl Strategy<Value = String> {
    let name = proptest::sample::select(WORDS.map(|word| word.name).to_vec());
    let value = prop_oneof![
        "[0-9]{1,12}(\\.[0-9]{0,10})?(%|ms|us|s|ns|k|M|G|bit|kbit|mbit|gbit)?(:[0-9]{1,3}(%|ms))?(-[0-9]ms)?",
        ".*"
    ];
    (name, value).prop_map(|(name, value)| format!("{name}={value}"))
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(parts in proptest::collection::vec(any_part(), 0..6)) {
        if let Ok(impairments) = read(&parts.join(",")) {
            prop_assert_eq!(read(&impairments.to_string()), Ok(impairments));
        }
    }

    #[test]
    fn any_amounts_are_printed_as_what_they_are(
        parts in 0u32..=WHOLE,
        nanos in 0u64..=TIME_MAX,
        bits in 1u64..=RATE_MAX,
        bytes in any::<u64>(),
    ) {
        let rate = Rate { queue_bytes: bytes, burst_bytes: bytes, mark_bytes: Some(bytes), ..Rate::new(bits.try_into().unwrap()) };
        let impairments = Impairments {
            loss: Share::parts_per_billion(parts),
            delay: Duration::from_nanos(nanos),
            rate: Some(rate),
            ..Impairments::none()
        };
        prop_assert_eq!(read(&impairments.to_string()), Ok(impairments));
    }
}
