// HTTPS of ft serve and ft watch, requested with libcurl, and connections that are not HTTPS.
#include <gtest/gtest.h>

#include "app/hub/curl_library.h"
#include "app/process/confine.h"
#include "tests/life/answers/served.h"
#include "tests/support/certificate.h"

namespace ft::test {
namespace {

bool has_words(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Fetched {
  CURLcode code = CURLE_OK;
  long status = 0;
  std::string body;
};

std::size_t keep(char* data, std::size_t size, std::size_t count, void* to) {
  static_cast<std::string*>(to)->append(data, size * count);
  return size * count;
}

struct Ask {
  std::string url, certificate;  // certificate: trusted; empty: the machine's are
  std::string bearer = {}, user = {}, body = {};
  long newest = CURL_SSLVERSION_DEFAULT;
};

Fetched fetch(const Ask& ask) {
  const hub::CurlLibrary& f = hub::curl();
  CURL* c = f.easy_init();
  Fetched got;
  curl_slist* headers = nullptr;
  std::string head;
  f.easy_setopt(c, CURLOPT_URL, ask.url.c_str());
  f.easy_setopt(c, CURLOPT_NOPROXY, "*");
  f.easy_setopt(c, CURLOPT_TIMEOUT, 120L);
  f.easy_setopt(c, CURLOPT_WRITEFUNCTION, keep);
  f.easy_setopt(c, CURLOPT_WRITEDATA, &got.body);
  f.easy_setopt(c, CURLOPT_HEADERFUNCTION, keep);
  f.easy_setopt(c, CURLOPT_HEADERDATA, &head);
  f.easy_setopt(c, CURLOPT_SSLVERSION, ask.newest);
  if (!ask.certificate.empty()) f.easy_setopt(c, CURLOPT_CAINFO, ask.certificate.c_str());
  if (!ask.bearer.empty()) headers = f.slist_append(headers, ("Authorization: Bearer " + ask.bearer).c_str());
  if (!ask.user.empty()) f.easy_setopt(c, CURLOPT_USERPWD, ask.user.c_str());
  if (!ask.body.empty()) {
    headers = f.slist_append(headers, "Content-Type: application/json");
    f.easy_setopt(c, CURLOPT_POSTFIELDS, ask.body.c_str());
  }
  f.easy_setopt(c, CURLOPT_HTTPHEADER, headers);
  got.code = f.easy_perform(c);
  if (const auto at = head.rfind("HTTP/1.1 "); at != head.npos) got.status = std::stol(head.substr(at + 9));
  f.slist_free_all(headers);
  f.easy_cleanup(c);
  return got;
}

// A finished run, with a certificate and a file of a client's key beside it.
class Https : public testing::Test {
 protected:
  Workplace w{"llama", kLora};
  std::string cert = (w / "a.cert.pem").string();
  void SetUp() override {
    if (!make_certificate((w / ".").string(), "a"))
      GTEST_SKIP() << "no openssl program makes certificates here";
    ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
    std::ofstream(w / "key") << "s3cret\n";
  }
  std::vector<std::string> command(std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"watch", "out", "--tls-cert", "a.cert.pem", "--tls-key", "a.key.pem"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Https, GivesThePageToThoseWhoTrustTheCertificate) {
  Listening watch(w, command());
  EXPECT_TRUE(has_words(w.says(), "watch at https://127.0.0.1:")) << w.says();
  const std::string url = "https://127.0.0.1:" + std::to_string(watch.port) + "/";
  const Fetched page = fetch({url, cert});
  EXPECT_EQ(page.code, CURLE_OK) << page.code;
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, contents(w / "out/report.html"));
  EXPECT_EQ(fetch({"https://localhost:" + std::to_string(watch.port) + "/", cert}).status, 200);
  EXPECT_EQ(fetch({url, ""}).code, CURLE_PEER_FAILED_VERIFICATION);
  EXPECT_EQ(fetch({url, cert, {}, {}, {}, CURL_SSLVERSION_MAX_TLSv1_1}).code, CURLE_SSL_CONNECT_ERROR);
  EXPECT_EQ(fetch({url, cert, {}, {}, {}, CURL_SSLVERSION_MAX_TLSv1_2}).status, 200);
  EXPECT_EQ(watch.stop(SIGINT), 0);
}

TEST_F(Https, StrangersToTlsAreToldOrClosedAndDisturbNobody) {
  const Listening watch(w, command());
  HttpClient silent(watch.port), half(watch.port), noise(watch.port), plain(watch.port);
  half.send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  noise.send("\x16" + std::string(500, '\xff'));
  const HttpAnswer told = plain.get("/");
  EXPECT_EQ(told.status, 400);
  EXPECT_EQ(told.body, "this port takes HTTPS, not HTTP.\r\n");
  EXPECT_EQ(noise.read().status, 0);
  EXPECT_EQ(fetch({"https://127.0.0.1:" + std::to_string(watch.port) + "/", cert}).status, 200);
}

TEST_F(Https, AKeyOpensThePageAsBearerAndAsPassword) {
  const Listening watch(w, command({"--api-key-file", "key"}));
  EXPECT_TRUE(has_words(w.says(), "with the user ft and the key")) << w.says();
  const std::string url = "https://127.0.0.1:" + std::to_string(watch.port) + "/";
  const auto status = [&](const std::string& bearer, const std::string& user) {
    return fetch({url, cert, bearer, user}).status;
  };
  EXPECT_EQ(status("", ""), 401);
  EXPECT_EQ(status("s3cret", ""), 200);
  EXPECT_EQ(status("s3cre", ""), 401);
  EXPECT_EQ(status("", "ft:s3cret"), 200);
  EXPECT_EQ(status("", "ft:"), 401);
  EXPECT_EQ(status("", "root:s3cret"), 401);
}

TEST_F(Https, AKeyWorksWithoutTlsToo) {
  const Listening watch(w, {"watch", "out", "--api-key-file", "key"});
  HttpClient client(watch.port);
  const HttpAnswer refused = client.get("/");
  EXPECT_EQ(refused.status, 401);
  EXPECT_TRUE(has_words(refused.head, "WWW-Authenticate: Basic realm=\"ft watch\"")) << refused.head;
  EXPECT_EQ(client.get("/", "Authorization: Bearer s3cret\r\n").status, 200);
  EXPECT_EQ(client.get("/log.jsonl").status, 401);
}

TEST_F(Https, AnswersOfAModelComeWholeAndInPieces) {
  const Listening serve(w, {"serve", "--model", kBase, "--tls-cert", "a.cert.pem", "--tls-key", "a.key.pem"});
  const std::string url = "https://127.0.0.1:" + std::to_string(serve.port) + kText;
  const auto ask = [&](bool stream) {
    const Json body = {{"model", "base"}, {"prompt", kPrompts[0]}, {"max_tokens", 12}, {"stream", stream}};
    return fetch({url, cert, {}, {}, body.dump()});
  };
  const Fetched whole = ask(false), pieces = ask(true);
  EXPECT_EQ(whole.status, 200) << whole.body;
  const std::string text = Json::parse(whole.body)["choices"][0]["text"];
  std::string streamed;
  for (const Json& e : events(pieces.body)) streamed += e["choices"][0].value("text", "");
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(streamed, text);
}

TEST_F(Https, AServerInTheSandboxHasItsCertificate) {
  if (const std::string reason = reason_against_confining(); !reason.empty()) GTEST_SKIP() << reason;
  const Listening serve(w, {"serve", "--model", kBase, "--sandbox", "device=cpu", "--api-key-file", "key",
                            "--tls-cert", "a.cert.pem", "--tls-key", "a.key.pem"});
  const std::string url = "https://127.0.0.1:" + std::to_string(serve.port) + "/v1/models";
  EXPECT_EQ(fetch({url, cert, "s3cret"}).status, 200) << w.says();
  EXPECT_EQ(fetch({url, cert}).status, 401);
}

TEST_F(Https, WrongFilesAreTheUsersToMend) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    for (const std::vector<std::string>& begin :
         {std::vector<std::string>{"watch", "out"}, {"serve", "--model", kBase}}) {
      std::vector<std::string> all = begin;
      all.insert(all.end(), more.begin(), more.end());
      EXPECT_EQ(w.run(all), 2) << w.says();
      EXPECT_TRUE(has_words(w.says(), text)) << w.says();
    }
  };
  refused({"--tls-cert", "a.cert.pem"}, "--tls-cert needs --tls-key");
  refused({"--tls-key", "a.key.pem"}, "--tls-key needs --tls-cert");
  refused({"--tls-cert", "a.key.pem", "--tls-key", "a.key.pem"}, "is no certificate in PEM");
  refused({"--tls-cert", "a.cert.pem", "--tls-key", "nowhere"}, "--tls-key nowhere: No such file");
}

}  // namespace
}  // namespace ft::test
