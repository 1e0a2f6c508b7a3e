// libFuzzer: any bytes as answers of a hub to ft pull and ft push. The first byte chooses the status, and the
// rest is the body of each answer and the value of the fields that ft reads.
#include <algorithm>

#include "app/hub/client.h"
#include "app/hub/listing.h"
#include "app/push/hub_writer.h"
#include "tests/fuzz/input.h"

namespace {

using namespace ft::hub;

// Gives the same answer to each request, at most ten times.
class Answers final : public HttpClient {
 public:
  Answers(int status, std::string body) : status_(status), body_(std::move(body)) {}
  HttpHead send(const HttpRequest&, const HttpSink& sink) override {
    if (++asked_ > 10) throw Stopped();
    const std::string value = body_.substr(0, std::min(body_.find('\n'), std::size_t{200}));
    HttpHead head{.status = status_, .fields = {}};
    for (const char* name : {"location", "etag", "x-linked-etag", "x-linked-size", "x-repo-commit",
                             "x-error-code", "x-error-message", "link", "retry-after", "content-length"})
      head.fields[name] = value;
    sink(head, body_);
    return head;
  }

 private:
  int status_, asked_ = 0;
  std::string body_;
};

void asked(std::size_t size, const std::function<void()>& ask) {
  ft::fuzz::read_within(size, [&] {
    try {
      ask();
    } catch (const Trouble&) {
    } catch (const Stopped&) {
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr int kStatuses[] = {200, 200, 200, 201, 206, 302, 307, 401, 403, 404, 409, 429, 500};
  const std::string body(ft::fuzz::text_of(data + 1, size - 1));
  const int status = kStatuses[data[0] % std::size(kStatuses)];
  ft::fuzz::read_within(size, [&] { (void)parse_listing(body, "the hub"); });
  (void)name_of_etag(body);
  (void)retry_after(body);
  (void)resolved_url("https://hub.example/a/b", body);
  (void)origin_of(body);
  const Access access{.cache = {},
                      .endpoint = "https://hub.example",
                      .token = "hf_x",
                      .token_source = "t",
                      .certificates = ""};
  const ft::HubName name{.kind = ft::HubKind::model, .id = "org/name"};
  const std::string commit(40, 'a');
  const auto with_client = [&](const std::function<void(Client&)>& ask) {
    Answers answers(status, body);
    Client client(access, name, answers);
    asked(size, [&] { ask(client); });
  };
  with_client([](Client& c) { (void)c.listing(); });
  with_client([&](Client& c) { (void)c.describe(commit, "config.json"); });
  with_client(
      [&](Client& c) { (void)c.read(commit, "config.json", 0, [](const HttpHead&, std::string_view) {}); });
  const LocalFile file = made_file("a.bin", std::string(100, 'x'), "");
  const auto with_writer = [&](const std::function<void(HubWriter&)>& ask) {
    with_client([&](Client& c) {
      HubWriter writer(c, false);
      ask(writer);
    });
  };
  with_writer([](HubWriter& w) { (void)w.look(); });
  with_writer([](HubWriter& w) { w.create(true); });
  with_writer([](HubWriter& w) { w.create_branch(); });
  std::vector<Addition> additions{{.file = &file, .large = true, .hash = std::string(64, 'b')}};
  with_writer([&](HubWriter& w) {
    std::vector<Addition> asked = additions;
    w.ask_modes(asked);
  });
  with_writer([&](HubWriter& w) {
    const std::vector<const Addition*> wanted{additions.data()};
    for (const auto& order : w.order(wanted))
      if (order) w.complete(*order, additions[0].hash, {"e"});
  });
  with_writer([&](HubWriter& w) { (void)w.commit(additions, "message"); });
  return 0;
}
