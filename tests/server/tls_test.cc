// TLS: what clients may bring, wrong files, certificates that change, and the transport's promises over it.
#include <openssl/ssl.h>

#include <cstring>
#include <fstream>

#include "../support/expect_error.h"
#include "../support/temp_folder.h"
#include "echo_fixture.h"
#include "test_certificates.h"

namespace glint {
namespace {

class TlsTest : public HttpTest {
 protected:
  TlsTest() {
    identity.write_certificate(file("cert.pem"));
    identity.write_key(file("key.pem"));
    authority.write_certificate(file("ca.pem"));
    options.tls.certfile = file("cert.pem");
    options.tls.keyfile = file("key.pem");
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder.path() / name; }
  [[nodiscard]] bool accepted(SSL_CTX* context) const {
    // With TLS 1.3 a client learns of a refusal with its first read.
    try {
      RawClient client(port(), context);
      return client.send(get_text("/a")) && client.read().has_value();
    } catch (const std::runtime_error&) {
      return false;
    }
  }

  TempFolder folder;
  TestCertificate authority{"authority"};
  TestCertificate identity{"localhost", &authority};
  HttpOptions options;
};

TEST_F(TlsTest, RequestsOfBothVersions) {
  start(options);
  EXPECT_EQ(server->url(), cat("https://127.0.0.1:", port()));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto context = client_tls(&authority, nullptr, version);
    RawClient client(port(), context.get());
    EXPECT_EQ(SSL_version(client.tls()), version);
    ASSERT_TRUE(client.send(get_text("/a") + post_text("/b", "hello")));
    EXPECT_EQ(client.read()->body, "GET /a ");
    EXPECT_EQ(client.read()->body, "POST /b hello");
    const std::string large(size_t{9} << 20, 'q');  // many records each way, more than the socket holds
    std::thread writer([&] { EXPECT_TRUE(client.send(post_text("/c", large))); });
    writer.join();
    const auto answer = client.read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "POST /c " + large);
    ASSERT_TRUE(client.send(get_text("/d", "Connection: close\r\n")));
    EXPECT_EQ(client.read()->body, "GET /d ");
    EXPECT_TRUE(client.closed_within(2000));
    EXPECT_EQ(SSL_get_shutdown(client.tls()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN)
        << "the end is said, not cut";
  }
  EXPECT_FALSE(accepted(client_tls(&authority, nullptr, TLS1_1_VERSION).get()));
}

/// What a client offers by ALPN, as Python's and browsers' do.
TEST_F(TlsTest, TheProtocolIsAgreedOn) {
  start(options);
  using Offer = std::basic_string<unsigned char>;
  const auto text = [](const char* bytes) { return Offer(bytes, bytes + std::strlen(bytes)); };
  const std::pair<Offer, std::string> offers[] = {
      {text("\x08http/1.1"), "http/1.1"}, {text("\x02h2\x08http/1.1"), "http/1.1"}, {text("\x02h2"), ""}};
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const auto& [offer, agreed] : offers) {
      const auto context = client_tls(&authority, nullptr, version);
      ASSERT_EQ(SSL_CTX_set_alpn_protos(context.get(), offer.data(), static_cast<unsigned>(offer.size())), 0);
      RawClient client(port(), context.get());
      const unsigned char* chosen = nullptr;
      unsigned bytes = 0;
      SSL_get0_alpn_selected(client.tls(), &chosen, &bytes);
      EXPECT_EQ(std::string(chosen, chosen + bytes), agreed);
      ASSERT_TRUE(client.send(get_text("/a")));
      EXPECT_EQ(client.read()->body, "GET /a ");
    }
  }
}

TEST_F(TlsTest, OneByteAtATime) {
  start(options);
  RawClient client(port(), client_tls(&authority).get());
  for (const char c : post_text("/slow", "body")) ASSERT_TRUE(client.send(std::string_view(&c, 1)));
  EXPECT_EQ(client.read()->body, "POST /slow body");
}

TEST_F(TlsTest, StreamsAndClientsThatLeave) {
  start(options);
  const auto context = client_tls(&authority);
  for (int how = 0; how < 3; ++how) {
    RawClient client(port(), context.get());
    ASSERT_TRUE(client.send(get_text("/stream")));
    ASSERT_TRUE(eventually([&] { return handler.handled == how + 1; }));
    std::shared_ptr<HttpExchange> exchange;
    {
      const std::lock_guard lock(handler.mutex);
      exchange = handler.held.back();
    }
    exchange->post([exchange] { exchange->send("data: 1\n\n"); });
    EXPECT_NE(client.read_until("data: 1\n\n").find("chunked"), std::string::npos);
    if (how == 0) SSL_shutdown(client.tls());
    if (how == 1) client.close();
    if (how == 2) client.reset();
    EXPECT_TRUE(eventually([&] { return handler.gone == how + 1; })) << how;
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

TEST_F(TlsTest, AReaderThatStopsIsDropped) {
  options.write_stall_timeout = Ms(200);
  options.backlog_bytes_max = size_t{64} << 20;
  start(options);
  RawClient client(port(), client_tls(&authority).get());
  ASSERT_TRUE(client.send(get_text("/flood")));
  ASSERT_TRUE(eventually([&] { return handler.first_held() != nullptr; }));
  const auto exchange = handler.first_held();
  exchange->post([exchange] { exchange->send(std::string(size_t{32} << 20, 'z')); });
  EXPECT_TRUE(eventually([&] { return handler.gone == 1; }));
}

TEST_F(TlsTest, NoHandshakeHarmsNobody) {
  options.header_timeout = Ms(200);
  start(options);
  RawClient plain(port());
  ASSERT_TRUE(plain.send(get_text("/a")));
  EXPECT_TRUE(plain.closed_within(2000));
  RawClient garbage(port());
  ASSERT_TRUE(
      garbage.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(600, 'x')));
  EXPECT_TRUE(garbage.closed_within(2000));
  RawClient silent(port());
  EXPECT_TRUE(silent.closed_within(2000)) << "a handshake has the time of a header";
  RawClient half(port());
  ASSERT_TRUE(half.send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7)));
  EXPECT_TRUE(half.closed_within(2000));
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_EQ(handler.handled, 0);
  EXPECT_TRUE(accepted(client_tls(&authority).get()));
}

TEST_F(TlsTest, CertificatesOfClients) {
  const TestCertificate known("friend", &authority);
  const TestCertificate stranger("stranger");
  options.tls.ca_certs = file("ca.pem");
  constexpr bool kAllowed[3][3] = {                        // none, known, stranger
                                   {true, true, true},     // 0: not asked for
                                   {true, true, false},    // 1: checked if there is one
                                   {false, true, false}};  // 2: required
  for (int reqs = 0; reqs < 3; ++reqs) {
    options.tls.cert_reqs = reqs;
    start(options);
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      EXPECT_EQ(accepted(client_tls(&authority, nullptr, version).get()), kAllowed[reqs][0]) << reqs;
      EXPECT_EQ(accepted(client_tls(&authority, &known, version).get()), kAllowed[reqs][1]) << reqs;
      EXPECT_EQ(accepted(client_tls(&authority, &stranger, version).get()), kAllowed[reqs][2]) << reqs;
    }
    server->stop();
  }
}

TEST_F(TlsTest, WrongFilesAreOneLine) {
  const auto refused = [&](const TlsOptions& tls, const std::vector<std::string>& parts) {
    HttpOptions wrong;
    wrong.host = "127.0.0.1";
    wrong.port = 0;
    wrong.tls = tls;
    expect_error([&] { const HttpServer never(wrong, handler); }, parts);
  };
  TlsOptions tls = options.tls;
  tls.certfile = file("missing.pem");
  refused(tls, {"--ssl-certfile", "missing.pem", "No such file"});
  tls = options.tls;
  tls.keyfile.clear();
  refused(tls, {"--ssl-keyfile", "cert.pem"});  // the certificate's file has no key
  const TestCertificate other("other");
  other.write_key(file("other.pem"));
  tls.keyfile = file("other.pem");
  refused(tls, {"--ssl-keyfile", "other.pem", "--ssl-certfile"});
  identity.write_key(file("locked.pem"), "sesame");
  tls.keyfile = file("locked.pem");
  refused(tls, {"--ssl-keyfile", "locked.pem", "--ssl-keyfile-password"});
  tls.keyfile_password = "wrong";
  refused(tls, {"--ssl-keyfile", "locked.pem"});
  tls = options.tls;
  tls.ca_certs = file("key.pem");
  refused(tls, {"--ssl-ca-certs", "key.pem"});
  tls = options.tls;
  tls.cert_reqs = 2;
  refused(tls, {"--ssl-cert-reqs", "--ssl-ca-certs"});
  tls.cert_reqs = 3;
  refused(tls, {"--ssl-cert-reqs", "3"});
  TlsOptions alone;
  alone.keyfile = file("key.pem");
  expect_error([&] { check_tls_options(alone); }, {"--ssl-keyfile", "--ssl-certfile"});
}

TEST_F(TlsTest, AKeyBehindItsPassword) {
  identity.write_key(file("locked.pem"), "sesame");
  options.tls.keyfile = file("locked.pem");
  options.tls.keyfile_password = "sesame";
  start(options);
  EXPECT_TRUE(accepted(client_tls(&authority).get()));
}

TEST_F(TlsTest, KeyAndCertificateInOneFile) {
  std::ofstream(file("both.pem")) << std::ifstream(file("key.pem")).rdbuf()
                                  << std::ifstream(file("cert.pem")).rdbuf();
  options.tls.certfile = file("both.pem");
  options.tls.keyfile.clear();
  start(options);
  EXPECT_TRUE(accepted(client_tls(&authority).get()));
}

TEST_F(TlsTest, CertificatesAreReadAgain) {
  options.tls.refresh = true;
  start(options);
  const TestCertificate second_authority("second authority");
  const TestCertificate second("localhost", &second_authority);
  const auto old_context = client_tls(&authority);
  const auto new_context = client_tls(&second_authority);
  RawClient open(port(), old_context.get());
  ASSERT_TRUE(open.send(get_text("/a")));
  EXPECT_EQ(open.read()->body, "GET /a ");
  EXPECT_FALSE(accepted(new_context.get()));
  // The certificate alone does not fit the key: the old pair stays until both are there.
  second.write_certificate(file("cert.pem"));
  std::this_thread::sleep_for(Ms(1300));
  EXPECT_TRUE(accepted(old_context.get()));
  second.write_key(file("key.pem"));
  EXPECT_TRUE(eventually([&] { return accepted(new_context.get()); }));
  EXPECT_FALSE(accepted(old_context.get()));
  ASSERT_TRUE(open.send(get_text("/b")));
  EXPECT_EQ(open.read()->body, "GET /b ") << "an open connection goes on";
}

}  // namespace
}  // namespace glint
