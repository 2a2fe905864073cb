//! Addresses of brokers: what librdkafka would take for one, and fail to reach later.

use std::net::Ipv6Addr;

use super::problem::Problem;

const PATH: &str = "kafka.brokers";
/// What may stand before `://`: the security protocols, which Kafka names listeners after.
const LISTENERS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// Each is `HOST` or `HOST:PORT`, with an IPv6 address in brackets, and perhaps a listener before it.
pub(super) fn check(brokers: &[String], found: &mut Vec<Problem>) {
    if brokers.iter().any(|broker| broker.contains('@')) {
        // None is shown: a password with a comma in it is in two of them.
        let message = "has an @: name and password do not stand in an address. Write HOST:PORT, and set \
                       sasl.username and sasl.password_file below kafka.properties";
        found.push(Problem::new(PATH, message));
        return;
    }
    found.extend(brokers.iter().filter_map(|broker| mistake(broker)).map(|message| Problem::new(PATH, message)));
}

fn mistake(broker: &str) -> Option<String> {
    let (listener, address) = broker.split_once("://").unwrap_or(("PLAINTEXT", broker));
    if !LISTENERS.iter().any(|known| known.eq_ignore_ascii_case(listener)) {
        let known = LISTENERS.join(", ");
        return Some(format!(
            "\"{broker}\" begins with {listener}://: write HOST:PORT; before it may stand one of {known}"
        ));
    }
    (!is_address(address))
        .then(|| format!("\"{broker}\" is no address of a broker: write HOST:PORT, as in localhost:9092"))
}

fn is_address(address: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if let Some((host, port)) = address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let host = host.split_once('%').map_or(host, |(host, _zone)| host);
        return host.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = address.split_once(':').map_or((address, true), |(host, port)| (host, is_port(port)));
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    port && !host.is_empty() && host.chars().all(in_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(brokers: &[&str]) -> Vec<String> {
        let brokers: Vec<_> = brokers.iter().map(|broker| (*broker).to_owned()).collect();
        let mut found = Vec::new();
        check(&brokers, &mut found);
        found.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn a_broker_is_a_host_perhaps_with_a_port_and_a_listener() {
        let right =
            ["host", "a-b.example.com:9093", "SASL_SSL://b:9094", "plaintext://b", "[::1]:9092", "[fe80::1%eth0]"];
        assert_eq!(said(&right), Vec::<String>::new());
        for wrong in
            ["", "::1", "::1:9092", "[::1", "[host]:9092", "[::1]9092", "b:9092/", "b:1:2", "b:+", "SSL://", "a b"]
        {
            assert!(said(&[wrong])[0].contains("is no address of a broker: write HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn a_scheme_that_names_no_listener_is_refused() {
        insta::assert_snapshot!(said(&["http://host:80"]).join("\n"), @r#""http://host:80" begins with http://: write HOST:PORT; before it may stand one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"#);
    }

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        let said = said(&["http://user:can", "ary@host:9092"]);
        insta::assert_snapshot!(said.join("\n"), @"has an @: name and password do not stand in an address. Write HOST:PORT, and set sasl.username and sasl.password_file below kafka.properties");
    }
}
