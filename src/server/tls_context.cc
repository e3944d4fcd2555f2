#include "server/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

/// OpenSSL's words for what went wrong last; takes them.
std::string last_reason() {
  const unsigned long first = ERR_peek_error();
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (ERR_GET_LIB(first) == ERR_LIB_SYS) return std::generic_category().message(ERR_GET_REASON(first));
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

/// Never asks on the terminal, which is what OpenSSL does without it.
int give_password(char* buffer, int size, int /*writing*/, void* user) {
  const std::string& password = *static_cast<const std::string*>(user);
  const size_t bytes = std::min(password.size(), static_cast<size_t>(size));
  std::copy_n(password.data(), bytes, buffer);
  return static_cast<int>(bytes);
}

int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_bytes,
                    const unsigned char* offered, unsigned offered_bytes, void* /*user*/) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";  // OpenSSL reads what is chosen after the return
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_bytes, kOurs, sizeof kOurs - 1, offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void load_certificate(SSL_CTX* context, const TlsOptions& options) {
  if (SSL_CTX_use_certificate_chain_file(context, options.certfile.c_str()) != 1) {
    fail(ErrorKind::bad_input, "argument --ssl-certfile: ", options.certfile,
         ": not a PEM certificate that can be read (", last_reason(), ")");
  }
}

void load_key(SSL_CTX* context, const TlsOptions& options) {
  std::string password = options.keyfile_password;
  SSL_CTX_set_default_passwd_cb(context, give_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &password);
  const std::string& file = options.keyfile.empty() ? options.certfile : options.keyfile;
  const bool loaded = SSL_CTX_use_PrivateKey_file(context, file.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  const unsigned long code = ERR_peek_last_error();
  if (!loaded && ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH) {
    fail(ErrorKind::bad_input, "argument --ssl-keyfile: ", file, " is not the key of --ssl-certfile ",
         options.certfile);
  }
  if (!loaded) {
    fail(ErrorKind::bad_input, "argument --ssl-keyfile: ", file, ": not a PEM key that can be read (",
         last_reason(), "); an encrypted one needs --ssl-keyfile-password");
  }
}

void load_authorities(SSL_CTX* context, const TlsOptions& options) {
  if (options.ca_certs.empty()) return;
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(options.ca_certs.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(context, options.ca_certs.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    fail(ErrorKind::bad_input, "argument --ssl-ca-certs: ", options.ca_certs,
         ": no PEM certificates that can be read (", last_reason(), ")");
  }
  SSL_CTX_set_client_CA_list(context, names);  // takes them
}

}  // namespace

void check_tls_options(const TlsOptions& options) {
  if (options.cert_reqs < 0 || options.cert_reqs > 2) {
    fail(ErrorKind::bad_input, "argument --ssl-cert-reqs: invalid choice: ", options.cert_reqs,
         " (0: clients need no certificate, 1: it is checked if they send one, 2: they need one)");
  }
  if (!options.on()) {
    for (const auto& [flag, value] :
         {std::pair<std::string_view, std::string_view>{"--ssl-keyfile", options.keyfile},
          {"--ssl-ca-certs", options.ca_certs}}) {
      if (!value.empty()) fail(ErrorKind::bad_input, "argument ", flag, ": needs --ssl-certfile beside it");
    }
    if (options.cert_reqs > 0) {
      fail(ErrorKind::bad_input, "argument --ssl-cert-reqs: needs --ssl-certfile beside it");
    }
    return;
  }
  if (options.cert_reqs > 0 && options.ca_certs.empty()) {
    fail(ErrorKind::bad_input, "argument --ssl-cert-reqs ", options.cert_reqs,
         ": needs --ssl-ca-certs, the certificates by which clients are known");
  }
}

void TlsContext::Free::operator()(SSL_CTX* context) const {
  SSL_CTX_free(context);
}

TlsContext::TlsContext(const TlsOptions& options) : context_(SSL_CTX_new(TLS_server_method())) {
  GLINT_CHECK(context_ != nullptr);
  ERR_clear_error();
  SSL_CTX* context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // A partial write may be repeated from a buffer that has moved and grown; idle connections hold no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // tickets do it without memory of ours
  constexpr unsigned char kSessionId[] = "glint";
  SSL_CTX_set_session_id_context(context, kSessionId, sizeof kSessionId - 1);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  load_certificate(context, options);
  load_key(context, options);
  load_authorities(context, options);
  constexpr int kModes[] = {SSL_VERIFY_NONE, SSL_VERIFY_PEER,
                            SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT};
  SSL_CTX_set_verify(context, kModes[options.cert_reqs], nullptr);
}

TlsStore::TlsStore(TlsOptions options) : options_(std::move(options)) {
  check_tls_options(options_);
  stamp_ = stamp();
  current_ = std::make_shared<const TlsContext>(options_);
}

TlsStore::Stamp TlsStore::stamp() const {
  Stamp stamp;
  for (const std::string* file : {&options_.certfile, &options_.keyfile, &options_.ca_certs}) {
    struct stat info {};
    if (!file->empty() && stat(file->c_str(), &info) == 0) {
      stamp.insert(stamp.end(), {static_cast<long long>(info.st_ino), static_cast<long long>(info.st_size),
                                 static_cast<long long>(info.st_mtim.tv_sec),
                                 static_cast<long long>(info.st_mtim.tv_nsec)});
    } else {
      stamp.push_back(-1);
    }
  }
  return stamp;
}

bool TlsStore::refresh() {
  Stamp now = stamp();
  if (now == stamp_) return false;
  stamp_ = std::move(now);
  try {
    current_ = std::make_shared<const TlsContext>(options_);
  } catch (const Error& error) {
    log_warning("the changed TLS files are not used: ", error.what());
    return false;
  }
  log_info("TLS certificate read again from ", options_.certfile);
  return true;
}

}  // namespace glint
