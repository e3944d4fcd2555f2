#include "flags/groups.h"

namespace glint {

void add_http_flags(FlagTable& table, ServeFlags& to) {
  table.group("HTTP server", {"HTTP"});
  table.add(value_flag("host", to.serve.http.host, Text{})
                .metavar("ADDRESS")
                .form_default(std::string(kLaunchServer), "127.0.0.1")
                .help("Address to listen on, IPv4, IPv6 or a name"));
  table.add(value_flag("port", to.serve.http.port, WholeNumber{0, 65535})
                .metavar("PORT")
                .form_default(std::string(kLaunchServer), "30000")
                .help("Port to listen on; 0: any free one, which is printed"));
  table.add(value_flag("http-threads", to.serve.http.threads, WholeNumber{1, 64})
                .metavar("N")
                .help("Threads that talk to clients"));
  table.add(value_flag("http-workers", to.serve.worker_threads, WholeNumber{1, 64})
                .metavar("N")
                .help("Threads that read requests and tokenize"));
}

}  // namespace glint
