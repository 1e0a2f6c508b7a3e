#include "app/watch/watch.h"

#include <exception>
#include <thread>

#include "app/http/http.h"
#include "app/http/key.h"
#include "app/http/origins.h"
#include "app/http/web_page.h"
#include "app/process/signals.h"
#include "app/screen/screen.h"
#include "app/watch/live_page.h"
#include "app/watch/live_script.h"

namespace ft {
namespace {

constexpr std::chrono::milliseconds kCheck{50};  // interval of checking signals
constexpr std::int64_t kBody = 1024;             // bytes of a request; the page sends none

HttpReply text_reply(int status, const std::string& text) {
  return {
      .status = status, .body = text + "\n", .type = "text/plain; charset=utf-8", .headers = {}, .next = {}};
}

// Makes browsers ask for the key as a password.
HttpReply ask_for_key() {
  HttpReply reply =
      text_reply(401, str("this page needs the key of --api-key-file: as the password of the user ",
                          kPageUser, ", or in Authorization: Bearer KEY"));
  reply.headers.emplace_back("WWW-Authenticate", "Basic realm=\"ft watch\", charset=\"UTF-8\"");
  return reply;
}

HttpReply reply_to(const HttpRequest& r, const Origins& origins, const std::string& key, LivePage& page) {
  std::string fault = origins.fault_of_origin(r);
  if (fault.empty() && key.empty()) fault = origins.fault_of_host(r);
  if (!fault.empty()) return text_reply(403, fault);
  if (Origins::is_preflight(r)) return {.status = 204, .body = "", .headers = {}, .next = {}};
  if (!key.empty() && !knows_key(r.authorization, key) && !knows_password(r.authorization, key))
    return ask_for_key();
  if (r.path != "/") return text_reply(404, "there is one page here: /");
  if (r.method != "GET" && r.method != "HEAD") return text_reply(405, "the page is asked with GET");
  try {
    return page_reply(r, page.html(), kLiveScript);
  } catch (const UserError& e) {
    return text_reply(500, e.what());
  } catch (const std::exception&) {
    return text_reply(500, "internal error");
  }
}

}  // namespace

Exit watch(const WatchArgs& args) {
  const Origins origins(args.host, args.allowed_origins);
  const std::string key = args.key_file.empty() ? "" : read_api_key(args.key_file);
  const std::optional<TlsContext> https = https_of(args.https);
  LivePage page(args.runs);
  const StopSignals stop(true);
  const auto answer = [&](const HttpRequest& r) {
    HttpReply reply = reply_to(r, origins, key, page);
    origins.admit(r, reply);
    return reply;
  };
  const HttpServer http(args.host, args.port, {.body = kBody}, answer, https);
  Screen screen(Screen::standard_error());
  for (const std::string& line : page.progress()) screen.line(printable(line));
  if (!is_own_address(args.host) && key.empty())
    screen.line(str("--host ", printable(args.host), ": whoever can reach this address can read the page; ",
                    "--api-key-file FILE asks for a key"));
  screen.line(str("watch at ", http.address(), "/",
                  key.empty() ? "" : str(" with the user ", kPageUser, " and the key"), "; Ctrl-C ends it"));
  while (!stop.asked()) std::this_thread::sleep_for(kCheck);
  return Exit::done;
}

}  // namespace ft
