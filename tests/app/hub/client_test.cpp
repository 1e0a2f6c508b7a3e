// Redirects, encodings and waits, with a client that sends nothing.
#include "app/hub/client.h"

#include <gtest/gtest.h>

#include <deque>

#include "app/hub/patience.h"
#include "engine/core/error.h"
#include "tests/data/scratch.h"

namespace ft::hub {
namespace {

using test::error_of;

// Gives prepared answers and keeps the requests.
struct FakeHttp final : HttpClient {
  HttpHead send(const HttpRequest& request, const HttpSink&) override {
    requests.push_back(request);
    HttpHead head = heads.front();
    if (heads.size() > 1) heads.pop_front();
    return head;
  }
  std::deque<HttpHead> heads;
  std::vector<HttpRequest> requests;
};

const std::string kSomeCommit(40, 'a');

struct HubClient : testing::Test {
  std::string refused(Exit code) {
    return error_of(
        code, [&] { client.read(kSomeCommit, "a b.json", 0, [](const HttpHead&, std::string_view) {}); });
  }
  Access access{.endpoint = "https://hub.example", .token = "hf_secret"};
  FakeHttp http;
  Client client{access, {HubKind::dataset, "org/rows", "refs/pr/1"}, http};
};

TEST_F(HubClient, AsksForWhatTheNameSays) {
  http.heads = {{.status = 404, .fields = {{"x-error-code", "RevisionNotFound"}}}};
  error_of(Exit::input, [&] { client.listing(); });
  EXPECT_EQ(http.requests[0].url,
            "https://hub.example/api/datasets/org/rows/revision/refs%2Fpr%2F1?blobs=true");
  refused(Exit::input);
  EXPECT_EQ(http.requests[1].url,
            "https://hub.example/datasets/org/rows/resolve/" + kSomeCommit + "/a%20b.json");
}

TEST_F(HubClient, NoRedirectLeavesEncryption) {
  http.heads = {{.status = 302, .fields = {{"location", "http://hub.example/x"}}}};
  EXPECT_EQ(refused(Exit::input),
            "https://hub.example: redirects to http://hub.example, which is not encrypted");
  EXPECT_EQ(http.requests.size(), 1u);
}

TEST_F(HubClient, AnotherPortOrHostGetsNoToken) {
  for (const std::string where : {"https://hub.example:444/x", "https://hub.example.evil/x",
                                  "https://x.hub.example/x", "https://hub.example@evil.example/x"}) {
    http.requests.clear();
    http.heads = {{.status = 302, .fields = {{"location", where}}}, {.status = 200}};
    client.read(kSomeCommit, "a", 0, [](const HttpHead&, std::string_view) {});
    EXPECT_EQ(http.requests[0].token, "hf_secret");
    EXPECT_EQ(http.requests[1].token, "") << where;
  }
}

TEST_F(HubClient, RedirectsEnd) {
  http.heads = {{.status = 302, .fields = {{"location", "/again"}}}};
  EXPECT_NE(refused(Exit::input).find("more than 10 redirects"), std::string::npos);
  EXPECT_EQ(http.requests.size(), 11u);
  for (const std::string where : {"", "file:///etc/passwd", "ftp://x/y"}) {
    http.heads = {{.status = 302, .fields = {{"location", where}}}};
    EXPECT_TRUE(refused(Exit::input).find("redirects to") != std::string::npos) << where;
  }
}

TEST_F(HubClient, AFileIsDescribedByTheRedirectToIt) {
  http.heads = {{.status = 302,
                 .fields = {{"location", "https://files.example/x"},
                            {"x-linked-etag", "\"" + std::string(64, 'f') + "\""},
                            {"x-linked-size", "123"}}}};
  const RemoteFile file = client.describe(kSomeCommit, "a");
  EXPECT_EQ(file.size, 123);
  EXPECT_EQ(file.hash, std::string(64, 'f'));
  EXPECT_EQ(http.requests.size(), 1u);
  for (const auto& [name, value] : {std::pair{"x-linked-size", "-5"},
                                    {"x-linked-size", "99999999999999999999"},
                                    {"x-linked-etag", "\"../../x\""}}) {
    http.heads[0].fields["x-linked-size"] = "1";
    http.heads[0].fields[name] = value;
    EXPECT_NE(error_of(Exit::input, [&] { client.describe(kSomeCommit, "a"); }).find("it is no hub"),
              std::string::npos);
  }
}

TEST(HubHttp, Addresses) {
  EXPECT_EQ(origin_of("https://HuggingFace.co/x?y"), "https://huggingface.co");
  EXPECT_EQ(origin_of("https://huggingface.co:443"), "https://huggingface.co");
  EXPECT_EQ(origin_of("http://me:secret@localhost:8080/x"), "http://localhost:8080");
  EXPECT_EQ(resolved_url("https://a.b/c/d", "/e?f=1"), "https://a.b/e?f=1");
  EXPECT_EQ(resolved_url("https://a.b/c/d", "//e.f/g"), "https://e.f/g");
  EXPECT_EQ(resolved_url("https://a.b/c", "https://d/e f"), "https://d/e%20f");
  EXPECT_EQ(percent_encoded("a/b c%\xc3\xbc", "/"), "a/b%20c%25%C3%BC");
}

TEST(HubHttp, AClientOutlivesAHostThatIsNotFound) {
  const auto http = make_http_client({.connect_seconds = 5});
  for (int again = 0; again < 2; ++again)
    EXPECT_THROW(http->send({.url = "https://hub.invalid/x"}, [](const HttpHead&, std::string_view) {}),
                 ConnectionFailed);
}

TEST(HubHttp, RetryAfterIsANumberOrADate) {
  EXPECT_EQ(retry_after("120"), 120);
  EXPECT_EQ(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), 0);
  EXPECT_GT(retry_after("Wed, 21 Oct 2065 07:28:00 GMT").value(), 1e8);
  for (const std::string field : {"", "soon", "-1", "99999999999"}) EXPECT_FALSE(retry_after(field)) << field;
}

TEST(HubPatience, StopsWaitingWhenAsked) {
  bool asked = false;
  Patience patience(std::chrono::minutes(5), [&] { return std::exchange(asked, true); });
  EXPECT_THROW(patience.wait(Trouble("x")), Stopped);
}

TEST(HubPatience, ProgressBeginsTheCountAnew) {
  Patience patience(std::chrono::milliseconds(0), {});
  for (int i = 0; i < 20; ++i) {
    for (int failure = 0; failure < 5; ++failure) patience.wait(Trouble("x"));
    patience.progressed();
  }
  for (int failure = 0; failure < 5; ++failure) patience.wait(Trouble("x"));
  EXPECT_EQ(error_of(Exit::peer_lost, [&] { patience.wait(Trouble("no way")); }),
            "no way, 6 times in a row\n  the same command goes on from here");
}

}  // namespace
}  // namespace ft::hub
