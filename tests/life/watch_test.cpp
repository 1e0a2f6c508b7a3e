// ft watch from outside: follows a run to its report, and refuses pages of other origins.
#include <gtest/gtest.h>

#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

bool shows(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string page_at(int port) {
  const HttpAnswer a = HttpClient(port).get("/");
  EXPECT_EQ(a.status, 200) << a.head << a.body;
  return a.body;
}

TEST(Watch, FollowsARunToItsReport) {
  const Workplace w("llama", kLora);
  const pid_t run = w.start({"train", "--config", "run.json", "training.max_steps=100000"});
  ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
  Listening watch(w, {"watch", "out"});
  EXPECT_TRUE(shows(w.says(), "out: step ")) << w.says();
  const std::string first = page_at(watch.port);
  EXPECT_TRUE(shows(first, " of 100,000, ")) << first;
  EXPECT_TRUE(shows(first, "<script>"));
  EXPECT_FALSE(shows(first, "http:"));
  EXPECT_TRUE(comes_to_hold(60, [&] { return page_at(watch.port) != first; }));
  kill(run, SIGTERM);
  EXPECT_EQ(Workplace::finish(run), 75);
  EXPECT_EQ(page_at(watch.port), contents(w / "out/report.html"));
  EXPECT_EQ(watch.stop(SIGINT), 0);
}

TEST(Watch, ShowsTheAnswersOfEachEvaluation) {
  const Served w;
  for (int i = 0; i < 3; ++i)
    std::ofstream(w / "train.jsonl", std::ios::app) << "{\"prompt\": \"one\", \"completion\": \"two\"}\n";
  const pid_t run =
      w.start({"train", "--config", "run.json", "training.max_steps=100000", "data.val_set_size=1",
               "evaluation.eval_strategy=steps", "evaluation.eval_steps=2",
               "evaluation.predict_with_generate=true", "generation.max_new_tokens=4"});
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const Listening watch(w, {"watch", "out"});
  EXPECT_TRUE(comes_to_hold(60, [&] {
    const std::string page = page_at(watch.port), cell = "data-of=\"now\"><pre>";
    const std::size_t at = page.find(cell);
    return at != std::string::npos && page[at + cell.size()] != '<';
  }));
  kill(run, SIGKILL);
  Workplace::finish(run);
}

TEST(Watch, RefusesOtherOriginsAndPaths) {
  const Workplace w("llama", kLora);
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  const Listening watch(w, {"watch", "out", "--allow-origin", "https://ui.example"});
  HttpClient client(watch.port);
  const HttpAnswer page = client.get("/");
  EXPECT_TRUE(shows(page.head, "script-src 'none'")) << "a report has no script";
  EXPECT_EQ(client.get("/", "Origin: https://evil.example\r\n").status, 403);
  const HttpAnswer allowed = client.get("/", "Origin: https://ui.example\r\n");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_TRUE(shows(allowed.head, "Access-Control-Allow-Origin: https://ui.example")) << allowed.head;
  for (const char* path : {"/run.json", "/../run.json", "/log.jsonl", "//"})
    EXPECT_EQ(client.get(path).status, 404);
  client.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.read().status, 403);
  EXPECT_EQ(HttpClient(watch.port).post("/", Json::object()).status, 405);
}

TEST(Watch, AFolderWithoutARunIsNamed) {
  const Workplace w("llama");
  EXPECT_EQ(w.run({"watch", "nothing"}), 3);
  EXPECT_EQ(w.says(), "nothing: holds no run: there is no run.json\n");
}

}  // namespace
}  // namespace ft::test
