#include "checkpoint/hub/http_client.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdlib>

#include "checkpoint/hub/encodings.h"

namespace glint::hub {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using ErrorCode = beast::error_code;

constexpr size_t kChunkBytes = size_t{256} << 10;
constexpr uint32_t kHeaderBytesMax = 64U << 10;

/// Where distributions keep the certificates that they trust. OpenSSL alone knows only the path of the
/// distribution that it was built on.
constexpr const char* kSystemBundles[] = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"};

std::unique_ptr<ssl::context> tls_context(const HttpSettings& settings) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  ErrorCode ignored;
  context->set_default_verify_paths(ignored);  // SSL_CERT_FILE and SSL_CERT_DIR are read here
  struct stat info {};
  if (std::getenv("SSL_CERT_FILE") == nullptr) {
    for (const char* bundle : kSystemBundles) {
      if (::stat(bundle, &info) != 0) continue;
      context->load_verify_file(bundle, ignored);
      break;
    }
  }
  if (!settings.ca_file.empty()) {
    ErrorCode error;
    context->load_verify_file(settings.ca_file.string(), error);
    if (error) {
      fail(ErrorKind::bad_input, settings.ca_file.string(), ": holds no certificates that can be read (",
           "named by REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE)");
    }
  }
  context->set_verify_mode(ssl::verify_peer);
  return context;
}

}  // namespace

std::string HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

bool goes_direct(const HttpSettings& settings, std::string_view host) {
  return std::any_of(settings.no_proxy.begin(), settings.no_proxy.end(), [&](const std::string& entry) {
    std::string_view domain = entry;
    if (domain == "*" || domain == host) return true;
    if (!domain.empty() && domain.front() == '.') domain.remove_prefix(1);
    if (domain.empty() || host.size() < domain.size()) return false;
    if (host == domain) return true;
    return host.ends_with(domain) && host[host.size() - domain.size() - 1] == '.';
  });
}

/// One connection to one server and the exchange on it. Every step runs the loop until its handler was
/// called; beast::tcp_stream ends it at the deadline.
class HttpClient::Connection {
 public:
  Connection(const HttpSettings& settings, const Url& url)
      : settings_(settings), origin_(url.origin()), proxy_(proxy_of(settings, url)) {
    if (url.tls) tls_ = tls_context(settings);
    connect(url);
  }

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] bool reusable() const { return parser_ && parser_->is_done() && parser_->keep_alive(); }

  HttpResponse get(const Url& url, const HttpHeaders& headers) {
    const bool absolute = proxy_ && !url.tls;
    http::request<http::empty_body> request(http::verb::get, absolute ? url.text() : url.target, 11);
    request.set(http::field::host, url.host_header());
    for (const auto& [name, value] : headers) request.set(name, value);
    if (absolute) authorize(request);
    write(request);
    parser_.emplace();
    parser_->body_limit(boost::none);
    parser_->header_limit(kHeaderBytesMax);
    limit(settings_.silence_timeout);
    step([&](auto handler) {
      with_stream(
          [&](auto& stream) { http::async_read_header(stream, buffer_, *parser_, std::move(handler)); });
    });
    HttpResponse response;
    response.status = parser_->get().result_int();
    for (const auto& field : parser_->get()) {
      response.headers.emplace_back(lower_case(field.name_string()), field.value());
    }
    return response;
  }

  std::span<const std::byte> read() {
    while (parser_ && !parser_->is_done()) {
      auto& body = parser_->get().body();
      body.data = chunk_.data();
      body.size = chunk_.size();
      limit(settings_.silence_timeout);
      step([&](auto handler) {
        with_stream(
            [&](auto& stream) { http::async_read_some(stream, buffer_, *parser_, std::move(handler)); });
      });
      if (const size_t got = chunk_.size() - body.size; got > 0) {
        return std::as_bytes(std::span(chunk_)).first(got);
      }
    }
    return {};
  }

 private:
  static std::optional<Url> proxy_of(const HttpSettings& settings, const Url& url) {
    const std::optional<Url>& proxy = url.tls ? settings.https_proxy : settings.http_proxy;
    return goes_direct(settings, url.host) ? std::nullopt : proxy;
  }

  template <class Body>
  void with_stream(const Body& body) {
    if (secure_) {
      body(*secure_);
    } else {
      body(*plain_);
    }
  }
  beast::tcp_stream& tcp_layer() { return secure_ ? secure_->next_layer() : *plain_; }
  void limit(std::chrono::milliseconds time) { tcp_layer().expires_after(time); }

  /// Starts an operation, waits for it, throws what went wrong.
  template <class Start>
  void step(const Start& start) {
    ErrorCode result;
    start([&result](ErrorCode error, auto&&...) { result = error; });
    io_.restart();
    io_.run();
    if (result && result != http::error::need_buffer) throw_transport(result);
  }

  [[noreturn]] void throw_transport(ErrorCode error) {
    const std::string peer = proxy_ ? "proxy " + proxy_->origin() + " for " + origin_ : origin_;
    if (error == beast::error::timeout) throw TransportError(peer + ": silent for too long", true);
    if (error == http::error::end_of_stream || error == http::error::partial_message ||
        error == asio::error::eof || error == ssl::error::stream_truncated) {
      throw TransportError(peer + ": the connection ended in the middle of an answer", true);
    }
    if (secure_) {
      if (const long verdict = SSL_get_verify_result(handle()); verdict != X509_V_OK) {
        throw TransportError(
            cat(peer, ": its certificate is refused (", X509_verify_cert_error_string(verdict),
                "); SSL_CERT_FILE names the file with the authorities to trust"),
            false);
      }
    }
    throw TransportError(peer + ": " + error.message(), true);
  }

  SSL* handle() { return secure_->native_handle(); }

  void connect(const Url& url) {
    plain_.emplace(io_);
    const Url& peer = proxy_ ? *proxy_ : url;
    ErrorCode error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(peer.host, std::to_string(peer.port), error);
    if (error) throw TransportError(peer.host + ": the name cannot be resolved: " + error.message(), true);
    limit(settings_.connect_timeout);
    step([&](auto handler) { plain_->async_connect(found, std::move(handler)); });
    plain_->socket().set_option(tcp::no_delay(true), error);
    if (!url.tls) return;
    if (proxy_) open_tunnel(url);
    secure_.emplace(std::move(*plain_), *tls_);
    plain_.reset();
    // Names, not addresses, are told to the server; the certificate is compared with either.
    (void)asio::ip::make_address(url.host, error);
    if (error) {
      std::string name = url.host;
      SSL_ctrl(handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
      GLINT_CHECK(SSL_set1_host(handle(), url.host.c_str()) == 1);
    } else {
      GLINT_CHECK(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(handle()), url.host.c_str()) == 1);
    }
    limit(settings_.connect_timeout);
    step([&](auto handler) { secure_->async_handshake(ssl::stream_base::client, std::move(handler)); });
  }

  void open_tunnel(const Url& url) {
    const std::string place = cat(url.bracketed_host(), ":", url.port);
    http::request<http::empty_body> request(http::verb::connect, place, 11);
    request.set(http::field::host, place);
    authorize(request);
    write(request);
    http::response_parser<http::empty_body> answer;
    answer.skip(true);  // what follows the head is TLS
    limit(settings_.connect_timeout);
    step([&](auto handler) { http::async_read_header(*plain_, buffer_, answer, std::move(handler)); });
    if (answer.get().result() != http::status::ok) {
      throw TransportError(cat("proxy ", proxy_->origin(), " refuses the way to ", origin_, " (",
                               answer.get().result_int(), ")"),
                           false);
    }
  }

  template <class Request>
  void authorize(Request& request) const {
    if (proxy_->user_info.empty()) return;
    request.set(http::field::proxy_authorization, "Basic " + base64(percent_decoded(proxy_->user_info)));
  }

  template <class Request>
  void write(const Request& request) {
    http::serializer<true, http::empty_body> serializer(request);
    limit(settings_.silence_timeout);
    step([&](auto handler) {
      with_stream([&](auto& stream) { http::async_write(stream, serializer, std::move(handler)); });
    });
  }

  const HttpSettings& settings_;
  const std::string origin_;
  const std::optional<Url> proxy_;
  asio::io_context io_{1};
  std::unique_ptr<ssl::context> tls_;
  std::optional<beast::tcp_stream> plain_;
  std::optional<ssl::stream<beast::tcp_stream>> secure_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::vector<char> chunk_ = std::vector<char>(kChunkBytes);
};

HttpClient::HttpClient(HttpSettings settings) : settings_(std::move(settings)) {}
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::get(const Url& url, const HttpHeaders& headers) {
  if (connection_ && connection_->origin() == url.origin() && connection_->reusable()) {
    try {
      return connection_->get(url, headers);
    } catch (const TransportError&) {
      // The server closed the idle connection; a new one says whether more is wrong.
    }
  }
  connection_.reset();
  connection_ = std::make_unique<Connection>(settings_, url);
  return connection_->get(url, headers);
}

std::span<const std::byte> HttpClient::read() {
  GLINT_CHECK(connection_ != nullptr);
  return connection_->read();
}

std::string HttpClient::read_all(size_t bytes_max) {
  std::string text;
  for (std::span<const std::byte> bytes = read(); !bytes.empty(); bytes = read()) {
    if (text.size() + bytes.size() > bytes_max) {
      fail(ErrorKind::io, connection_->origin(), ": an answer of more than ", bytes_max, " bytes");
    }
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text;
}

}  // namespace glint::hub
