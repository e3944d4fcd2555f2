#include "test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>

#include "base/error.h"

namespace glint {

namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::unique_ptr<std::FILE, FileCloser> open_for_writing(const std::filesystem::path& file) {
  std::unique_ptr<std::FILE, FileCloser> out(std::fopen(file.c_str(), "w"));
  GLINT_CHECK(out != nullptr);
  return out;
}

void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  GLINT_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TestCertificate::TestCertificate(const std::string& name, const TestCertificate* issuer)
    : key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), EVP_PKEY_free),
      certificate_(X509_new(), X509_free) {
  static long serial = 1;
  X509* own = certificate_.get();
  X509_set_version(own, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(own), serial++);
  X509_gmtime_adj(X509_getm_notBefore(own), -3600);
  X509_gmtime_adj(X509_getm_notAfter(own), 86400);
  X509_set_pubkey(own, key_.get());
  const std::string text = name;
  const void* bytes = text.c_str();
  X509_NAME_add_entry_by_txt(X509_get_subject_name(own), "CN", MBSTRING_UTF8,
                             static_cast<const unsigned char*>(bytes), -1, -1, 0);
  X509_set_issuer_name(own, X509_get_subject_name(issuer == nullptr ? own : issuer->certificate()));
  add_extension(own, NID_basic_constraints, issuer == nullptr ? "CA:TRUE" : "CA:FALSE");
  add_extension(own, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  GLINT_CHECK(X509_sign(own, issuer == nullptr ? key_.get() : issuer->key(), EVP_sha256()) > 0);
}

void TestCertificate::write_certificate(const std::filesystem::path& file) const {
  GLINT_CHECK(PEM_write_X509(open_for_writing(file).get(), certificate_.get()) == 1);
}

void TestCertificate::write_key(const std::filesystem::path& file, const std::string& password) const {
  const void* bytes = password.data();
  GLINT_CHECK(PEM_write_PrivateKey(open_for_writing(file).get(), key_.get(),
                                   password.empty() ? nullptr : EVP_aes_128_cbc(),
                                   password.empty() ? nullptr : static_cast<const unsigned char*>(bytes),
                                   static_cast<int>(password.size()), nullptr, nullptr) == 1);
}

std::shared_ptr<SSL_CTX> client_tls(const TestCertificate* authority, const TestCertificate* own,
                                    int version) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (version != 0) {
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
  }
  if (authority != nullptr) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority->certificate());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  if (own != nullptr) {
    SSL_CTX_use_certificate(context.get(), own->certificate());
    SSL_CTX_use_PrivateKey(context.get(), own->key());
  }
  return context;
}

}  // namespace glint
