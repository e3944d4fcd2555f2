// Sockets, TLS, browsers and proxies, limits of a connection, traces.
#include "base/json.h"
#include "flags/groups.h"

namespace glint {

namespace {

/// '["https://a.example"]'
struct JsonStrings {
  std::vector<std::string> operator()(std::string_view text) const { return parse_json_strings(text); }
  [[nodiscard]] std::string show(const std::vector<std::string>& values) const {
    return dump_json(OrderedJson(values));
  }
};

struct RootPath {
  std::string operator()(std::string_view text) const { return check_root_path(text); }
};

struct CollectorUrl {
  std::string operator()(std::string_view text) const {
    parse_otlp_endpoint(text);
    return std::string(text);
  }
};

void add_tls_flags(FlagTable& table, TlsOptions& tls) {
  table.add(value_flag("ssl-certfile", tls.certfile, Text{})
                .metavar("FILE")
                .help("Serve over TLS with this certificate: PEM, the chain behind it"));
  table.add(value_flag("ssl-keyfile", tls.keyfile, Text{})
                .metavar("FILE")
                .help("Its key; without it the key is in the certificate's file"));
  table.add(value_flag("ssl-keyfile-password", tls.keyfile_password, Text{})
                .metavar("PASSWORD")
                .secret()
                .help("Of an encrypted key"));
  table.add(value_flag("ssl-ca-certs", tls.ca_certs, Text{})
                .metavar("FILE")
                .help("PEM certificates by which clients are known"));
  table.add(value_flag("ssl-cert-reqs", tls.cert_reqs, WholeNumber{0, 2})
                .metavar("N")
                .help("Certificates of clients: 0 not asked for, 1 checked if there is one, 2 required"));
  table.add(toggle_flag("enable-ssl-refresh", tls.refresh).help("Read the TLS files again when they change"));
}

void add_front_flags(FlagTable& table, FrontOptions& front) {
  table.add(value_flag("allowed-origins", front.cors.origins, JsonStrings{})
                .metavar("LIST")
                .help("Origins of web pages that may call (CORS), as a JSON list"));
  table.add(value_flag("allowed-methods", front.cors.methods, JsonStrings{})
                .metavar("LIST")
                .help("Methods that they may use, as a JSON list"));
  table.add(value_flag("allowed-headers", front.cors.headers, JsonStrings{})
                .metavar("LIST")
                .help("Headers that they may send, as a JSON list"));
  table.add(toggle_flag("allow-credentials", front.cors.credentials)
                .help("They may send the credentials that the browser keeps"));
  table.add(value_flag("root-path", front.root_path, RootPath{})
                .metavar("PATH")
                .alias("fastapi-root-path")
                .help("What a proxy has put in front of every path, such as /api"));
  table.add(toggle_flag("enable-request-id-headers", front.request_ids).help("Answers carry X-Request-Id"));
}

}  // namespace

void add_transport_flags(FlagTable& table, ServeFlags& to) {
  HttpOptions& http = to.serve.http;
  ApiSettings& api = to.serve.api;
  table.group("HTTP server");
  table.add(value_flag("uds", http.unix_path, Text{})
                .metavar("PATH")
                .help("Listen on a Unix socket instead of host and port"));
  add_tls_flags(table, http.tls);
  add_front_flags(table, api.front);
  table.add(list_flag("admin-api-key", api.admin_api_keys)
                .metavar("KEY")
                .secret()
                .help("Keys that alone open the routes that change the server"));
  table.add(toggle_flag("disable-fastapi-docs", api.hide_openapi).help("No /openapi.json"));
  table.add(value_flag("h11-max-incomplete-event-size", http.header_bytes_max, WholeNumber{1024, 1 << 26})
                .metavar("BYTES")
                .help("The largest header of a request"));
  table.add(value_flag("h11-max-header-count", http.header_count_max, WholeNumber{1, 1 << 20})
                .metavar("N")
                .help("The most header lines of a request"));
  table.group("Logs and metrics");
  table.add(value_flag("otlp-traces-endpoint", api.traces.endpoint, CollectorUrl{})
                .metavar("URL")
                .help("Send a span for each request to this collector (OTLP over HTTP)"));
  table.add(toggle_flag("enable-trace", to.enable_trace)
                .help("The same, to http://localhost:4318 unless --otlp-traces-endpoint says where"));
  table.note_environment("OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_*, OTEL_BSP_*",
                         "With --otlp-traces-endpoint: see docs/operations.md");
}

}  // namespace glint
