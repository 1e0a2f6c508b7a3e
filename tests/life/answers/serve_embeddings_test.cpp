// ft serve with a model that embeds, from outside: /v1/embeddings gives the vectors of ft score; limits and
// mistakes are named.
#include "engine/core/base64.h"
#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

const std::string kPath = "/v1/embeddings";

// A trained model that embeds, and the embeddings that ft score gives kPrompts.
struct Embedding : Workplace {
  Embedding()
      : Workplace("llama", Json{{"model", {{"model_name_or_path", kBase}}},
                                {"objective", {{"type", "embed"}, {"pooling_mode", "mean"}}},
                                {"finetuning_type", "full"},
                                {"training", {{"max_steps", 2}}}}) {
    std::ofstream train(*this / "train.jsonl"), in(*this / "in.jsonl");
    for (const std::string& p : kPrompts) {
      train << Json{{"anchor", p}, {"positive", "five " + p}}.dump() << "\n";
      in << Json{{"text", p}}.dump() << "\n";
    }
    train.close(), in.close();
    Json config = Json::parse(contents(*this / "run.json"));
    config["data"]["datasets"][0].erase("type");
    std::ofstream(*this / "run.json") << config.dump();
    EXPECT_EQ(this->train(), 0) << says();
    EXPECT_EQ(run({"score", "--model", "out", "--input", "in.jsonl", "--output", "scored.jsonl"}), 0)
        << says();
    for (const Json& row : rows(*this / "scored.jsonl")) scored.push_back(row["embedding"]);
  }
  std::vector<Json> scored;
};

struct EmbeddingServer : Listening {
  explicit EmbeddingServer(const Workplace& w, std::vector<std::string> more = {})
      : Listening(w, [&] {
          more.insert(more.begin(), {"serve", "--model", "out"});
          return more;
        }()) {}
  HttpAnswer post(const std::string& path, const Json& body) const {
    return HttpClient(port).post(path, body);
  }
};

std::vector<float> floats(const Json& vector) { return vector.get<std::vector<float>>(); }

TEST(ServeEmbeddings, AreThoseOfScore) {
  const Embedding w;
  ASSERT_EQ(w.scored.size(), kPrompts.size());
  const EmbeddingServer server(w);
  const HttpAnswer all = server.post(kPath, {{"input", kPrompts}});
  ASSERT_EQ(all.status, 200) << all.body;
  const Json reply = all.json();
  EXPECT_EQ(reply["object"], "list");
  EXPECT_EQ(reply["model"], "out");
  EXPECT_GT(reply["usage"]["prompt_tokens"], 0);
  EXPECT_EQ(reply["usage"]["total_tokens"], reply["usage"]["prompt_tokens"]);
  ASSERT_EQ(reply["data"].size(), kPrompts.size());
  const Json coded = server.post(kPath, {{"input", kPrompts}, {"encoding_format", "base64"}}).json()["data"];
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    const Json& one = reply["data"][i];
    EXPECT_EQ(one["object"], "embedding");
    EXPECT_EQ(one["index"], i);
    const std::vector<float> got = floats(one["embedding"]), want = floats(w.scored[i]);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6) << i;
    EXPECT_EQ(coded[i]["embedding"],
              base64({reinterpret_cast<const char*>(got.data()), got.size() * sizeof(float)}))
        << i;
  }
  const std::vector<float> cut =
      floats(server.post(kPath, {{"input", kPrompts[0]}, {"dimensions", 8}}).json()["data"][0]["embedding"]);
  double squares = 0;
  for (const float x : cut) squares += double(x) * double(x);
  EXPECT_EQ(cut.size(), 8U);
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST(ServeEmbeddings, LimitsAndMistakesAreNamed) {
  const Embedding w;
  const EmbeddingServer server(w, {"--max-reply", "3KB"});
  const auto refused = [&](const Json& body, int status, const std::string& what) {
    const HttpAnswer a = server.post(kPath, body);
    EXPECT_EQ(a.status, status) << a.body;
    EXPECT_NE(a.body.find(what), std::string::npos) << a.body;
  };
  const std::string too_long = "the reply may have more than 3000 bytes (--max-reply): ask with fewer texts";
  refused({{"input", kPrompts}}, 400, too_long + ", with encoding_format base64, or with dimensions");
  const std::vector<std::string> many(60, "seven");
  refused({{"input", many}, {"dimensions", 8}, {"encoding_format", "base64"}}, 400,
          too_long + ", or with dimensions");
  EXPECT_EQ(server.post(kPath, {{"input", kPrompts}, {"dimensions", 8}}).status, 200);
  EXPECT_EQ(server.post(kPath, {{"input", many[0]}, {"encoding_format", "base64"}}).status, 200);
  refused({{"input", Json::array()}}, 400, "a text is empty");
  refused({{"text", "seven"}}, 400, "text");
  refused({{"input", "seven"}, {"encoding_format", "int8"}}, 400, "is float or base64");
  refused({{"input", {1 << 30}}}, 400, "the model's are 0 to");
  refused({{"input", "seven"}, {"model", "other"}}, 404, "there is no such model");
  EXPECT_EQ(server.post(kChat, {{"messages", Json::array()}}).status, 404);
}

TEST(ServeEmbeddings, AReplyHasRoomForAVector) {
  const Embedding w;
  EXPECT_EQ(w.run({"serve", "--model", "out", "--max-reply", "100B"}), 2);
  EXPECT_NE(w.says().find("--max-reply: a reply with one vector takes "), std::string::npos) << w.says();
}

TEST(ServeEmbeddings, AReplysSizeIsOfModelsThatEmbed) {
  const Workplace w("llama");
  EXPECT_EQ(w.run({"serve", "--model", kBase, "--max-reply", "1MB"}), 2);
  EXPECT_NE(w.says().find("--max-reply: is of models that embed texts"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
