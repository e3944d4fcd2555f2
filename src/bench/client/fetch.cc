#include "bench/client/fetch.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"

namespace glint::bench {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

bool names(const HttpHeaders& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const auto& entry) { return same_name(entry.first, name); });
}

/// Writes as much as the server takes: one may refuse a request before it has read all of it. Why it did not
/// take all is the reader's to find out.
void write_all(Connection& connection, std::string_view bytes, double end_s) {
  while (!bytes.empty()) {
    const auto result = connection.write(bytes);
    if (result.io == Connection::Io::done) {
      bytes.remove_prefix(result.bytes);
    } else if (result.io == Connection::Io::failed || result.io == Connection::Io::closed ||
               !wait_for(connection, result.io, end_s - now_s())) {
      return;
    }
  }
}

void read_all(Connection& connection, const HttpAsk& ask, double end_s, HttpReply& reply) {
  HttpReader reader(ask.method == "HEAD");
  std::array<char, 65536> bytes;
  while (!reader.done() && reply.error.empty() && !reply.broken_off) {
    const auto result = connection.read(bytes);
    const double at_s = now_s();
    if (result.io == Connection::Io::done) {
      const auto take = [&](std::string_view piece) {
        if (reply.broken_off) return;
        reply.body.append(piece);
        if (ask.on_body && !ask.on_body(piece, at_s)) reply.broken_off = true;
      };
      if (!reader.feed(std::string_view(bytes.data(), result.bytes), take)) reply.error = reader.error();
    } else if (result.io == Connection::Io::closed) {
      if (!reader.end_of_connection()) reply.error = "the connection ended inside the answer";
    } else if (result.io == Connection::Io::failed) {
      reply.error = connection.error();
    } else if (!wait_for(connection, result.io, end_s - now_s())) {
      reply.error = cat("no complete answer within ", ask.timeout_s, " s");
    }
  }
  reply.status = reader.status();
  reply.reason = reader.reason();
  reply.headers = reader.headers();
}

}  // namespace

std::string HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::string request_text(const Url& url, const HttpAsk& ask) {
  std::string text = ask.method + " " + url.prefix + ask.path + " HTTP/1.1\r\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    if (name.find_first_of("\r\n:") != std::string_view::npos ||
        value.find_first_of("\r\n") != std::string_view::npos) {
      fail(ErrorKind::bad_input, "the header ", name, " holds a line break or colon");
    }
    text.append(name).append(": ").append(value).append("\r\n");
  };
  if (!names(ask.headers, "host")) add("Host", url.authority());
  if (!names(ask.headers, "user-agent")) add("User-Agent", "glint");
  if (!names(ask.headers, "accept")) add("Accept", "*/*");
  if (ask.method == "POST" && !names(ask.headers, "content-type")) add("Content-Type", "application/json");
  if ((ask.method == "POST" || !ask.body.empty()) && !names(ask.headers, "content-length")) {
    add("Content-Length", std::to_string(ask.body.size()));
  }
  for (const auto& [name, value] : ask.headers) add(name, value);
  return text + "\r\n" + ask.body;
}

HttpReply fetch(const Target& target, const HttpAsk& ask) {
  HttpReply reply;
  const double end_s = now_s() + ask.timeout_s;
  Connection connection(target);
  write_all(connection, request_text(target.url(), ask), end_s);
  read_all(connection, ask, end_s, reply);
  return reply;
}

std::string error_message(std::string_view body) {
  try {
    const Json json = parse_json(body, "answer");
    for (const char* name : {"error", "message", "detail"}) {
      if (!json.is_object() || !json.contains(name)) continue;
      const Json& value = json[name];
      if (value.is_string()) return value.get<std::string>();
      if (value.is_object() && value.contains("message") && value["message"].is_string()) {
        return value["message"].get<std::string>();
      }
      return dump_json(value).substr(0, 300);
    }
  } catch (const Error&) {
    // Plain text or HTML.
  }
  std::string text(body.substr(0, 300));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string failure_text(const HttpReply& reply) {
  if (reply.status == 0) return reply.error;
  const std::string message = reply.error.empty() ? error_message(reply.body) : reply.error;
  return cat(reply.status, reply.reason.empty() ? "" : " ", reply.reason, message.empty() ? "" : ": ",
             message);
}

}  // namespace glint::bench
