// libFuzzer: any bytes that a client sends to ft serve's port. The server answers or closes the connection; a
// body is read as a request of OpenAI's API.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app/http/http.h"
#include "app/http/origins.h"
#include "app/serve/api_error.h"
#include "app/serve/ask.h"
#include "tests/fuzz/input.h"

namespace {

ft::HttpReply answer(const ft::HttpRequest& r) {
  static const ft::Origins origins("127.0.0.1", {"https://ui.example"});
  try {
    const std::string fault = origins.fault_of_origin(r) + origins.fault_of_host(r);
    if (!fault.empty()) return {.status = 403, .body = fault};
    const ft::Ask ask = ft::read_ask(r.body, r.path.find("chat") != std::string::npos, {});
    return {.body = ask.model};
  } catch (const ft::ApiError& e) {
    return {.status = e.status, .body = e.what()};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::HttpServer server(
      "127.0.0.1", 0,
      {.connections = 4, .body = 1 << 16, .request_seconds = 5, .write_seconds = 5, .idle_seconds = 5},
      answer);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    ft::fuzz::read_within(size, [&] {
      (void)::send(client, data, size, MSG_NOSIGNAL);
      ::shutdown(client, SHUT_WR);
      char reply[4096];
      while (::recv(client, reply, sizeof reply, 0) > 0) {
      }
    });
  }
  ::close(client);
  return 0;
}
