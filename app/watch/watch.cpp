#include "app/watch/watch.h"

#include <exception>
#include <thread>

#include "app/http/http.h"
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

HttpReply reply_to(const HttpRequest& r, const Origins& origins, LivePage& page) {
  for (const std::string& fault : {origins.fault_of_origin(r), origins.fault_of_host(r)})
    if (!fault.empty()) return text_reply(403, fault);
  if (Origins::is_preflight(r)) return {.status = 204, .body = "", .headers = {}, .next = {}};
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
  LivePage page(args.runs);
  const StopSignals stop(true);
  const HttpServer http(args.host, args.port, {.body = kBody}, [&](const HttpRequest& r) {
    HttpReply reply = reply_to(r, origins, page);
    origins.admit(r, reply);
    return reply;
  });
  Screen screen(Screen::standard_error());
  for (const std::string& line : page.progress()) screen.line(printable(line));
  if (!is_own_address(args.host))
    screen.line(str("--host ", printable(args.host), ": whoever can reach this address can read the page"));
  screen.line("watch at " + http_address(args.host, http.port()) + "/; Ctrl-C ends it");
  while (!stop.asked()) std::this_thread::sleep_for(kCheck);
  return Exit::done;
}

}  // namespace ft
