// Certificates made on the spot, for tests of TLS.
#pragma once

#include <openssl/types.h>

#include <filesystem>
#include <memory>
#include <string>

namespace glint {

/// A key and its certificate, for "localhost" and 127.0.0.1.
class TestCertificate {
 public:
  /// Signed by `issuer`, or by itself.
  explicit TestCertificate(const std::string& name, const TestCertificate* issuer = nullptr);

  /// Writes PEM files; an encrypted key if `password` is not empty.
  void write_certificate(const std::filesystem::path& file) const;
  void write_key(const std::filesystem::path& file, const std::string& password = "") const;
  [[nodiscard]] X509* certificate() const { return certificate_.get(); }
  [[nodiscard]] EVP_PKEY* key() const { return key_.get(); }

 private:
  std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> certificate_;
};

/// A client's context that trusts `authority` (none: trusts all), and shows `own` if it is given.
/// `version`: the only one it speaks, such as TLS1_2_VERSION; 0: any.
std::shared_ptr<SSL_CTX> client_tls(const TestCertificate* authority, const TestCertificate* own = nullptr,
                                    int version = 0);

}  // namespace glint
