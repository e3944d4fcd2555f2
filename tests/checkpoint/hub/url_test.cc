#include "checkpoint/hub/url.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/hub/encodings.h"
#include "checkpoint/hub/http_client.h"

namespace glint::hub {
namespace {

TEST(Url, TakesApart) {
  const Url url = parse_url("HTTPS://User:p%40@Hub.Example:8443/a/b?c=d#e", "x");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.user_info, "User:p%40");
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.target, "/a/b?c=d");
  EXPECT_EQ(url.origin(), "https://hub.example:8443");
  EXPECT_EQ(parse_url("http://[::1]:80/x", "x").text(), "http://[::1]/x");
  EXPECT_EQ(parse_url("http://h?q", "x").target, "/?q");
  EXPECT_EQ(parse_url("https://h", "x").port, 443);
}

TEST(Url, RefusesWhatIsNone) {
  for (const char* text : {"", "hub", "ftp://h/", "http://", "http://h:0/", "http://h:65536/", "http://h:1x/",
                           "http://[::1/", "http://[::1]x/", "http://h /", "http://h/\r\nX: 1"}) {
    EXPECT_THROW(parse_url(text, "HF_ENDPOINT"), Error) << text;
  }
}

TEST(Url, FollowsRedirects) {
  const Url base = parse_url("https://hub/a/b/c?x=/y", "x");
  EXPECT_EQ(join_url(base, "http://cdn:81/f?u=http://z").text(), "http://cdn:81/f?u=http://z");
  EXPECT_EQ(join_url(base, "//cdn/f").text(), "https://cdn/f");
  EXPECT_EQ(join_url(base, "/f?u=http://z").text(), "https://hub/f?u=http://z");
  EXPECT_EQ(join_url(base, "f").text(), "https://hub/a/b/f");
  EXPECT_EQ(join_url(base, "?page=2").text(), "https://hub/a/b/c?page=2");
  EXPECT_THROW(join_url(base, "/f\r\nX: 1"), Error);
}

TEST(Encodings, AreThoseOfTheirStandards) {
  EXPECT_EQ(percent_encoded("refs/pr/1 ~\xC3\xA9"), "refs%2Fpr%2F1%20~%C3%A9");
  EXPECT_EQ(percent_decoded("a%2Fb%zz%4"), "a/b%zz%4");
  // RFC 4648, section 10.
  const char* const vectors[][2] = {{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : vectors) EXPECT_EQ(base64(plain), coded);
}

TEST(NoProxy, TakesHostsAndTheirDomains) {
  HttpSettings settings;
  settings.no_proxy = {"example.org", ".corp", "10.0.0.1"};
  for (const char* host : {"example.org", "a.example.org", "a.corp", "corp", "10.0.0.1"}) {
    EXPECT_TRUE(goes_direct(settings, host)) << host;
  }
  for (const char* host : {"notexample.org", "example.org.evil", "10.0.0.10", "mycorp"}) {
    EXPECT_FALSE(goes_direct(settings, host)) << host;
  }
  settings.no_proxy = {"*"};
  EXPECT_TRUE(goes_direct(settings, "anything"));
}

}  // namespace
}  // namespace glint::hub
