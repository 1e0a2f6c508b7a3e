// Answers of a hub that end a pull at its beginning: refusals, and lists of files that are not accepted.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "tests/app/hub/hub_place.h"

namespace ft::test {
namespace {

using PullRefusals = HubPlace;

TEST_F(PullRefusals, AMissingRepository) {
  name.id = "org/absent";
  EXPECT_EQ(refused(Exit::input), access.endpoint +
                                      "/org/absent: the hub has no such model, or it is private; check the "
                                      "name, or log in with hf auth login, or put a token into HF_TOKEN");
  access.token = "hf_secretsecret";
  access.token_source = "HF_TOKEN";
  EXPECT_NE(refused(Exit::input).find("use a token that may read it (now: HF_TOKEN)"), std::string::npos);
}

TEST_F(PullRefusals, ADataSetThatWasTakenForAModel) {
  server.repositories["datasets/org/rows"].files["train.jsonl"] = {"{}\n"};
  name.id = "org/rows";
  EXPECT_EQ(refused(Exit::input), "org/rows is a data set: ft pull --dataset org/rows");
  name = {HubKind::dataset, "org/tiny"};
  EXPECT_EQ(refused(Exit::input), "org/tiny is a model: ft pull org/tiny");
}

TEST_F(PullRefusals, AMissingRevision) {
  name.revision = "v2";
  EXPECT_NE(refused(Exit::input).find("/org/tiny: has no revision v2"), std::string::npos);
}

TEST_F(PullRefusals, AGatedRepository) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) answer = refusal(403, "GatedRepo", "Access to model is restricted");
  };
  EXPECT_EQ(refused(Exit::mismatch),
            "org/tiny is gated: accept its conditions at " + access.endpoint +
                "/org/tiny, and log in with hf auth login, or put a token into HF_TOKEN");
  access.token = "hf_secretsecret";
  access.token_source = "/home/me/token";
  EXPECT_NE(refused(Exit::mismatch).find("with the account of the token in /home/me/token"),
            std::string::npos);
}

TEST_F(PullRefusals, ATokenThatTheHubRefuses) {
  server.token = "hf_right";
  access.token = "hf_wrongwrong";
  access.token_source = "HF_TOKEN";
  EXPECT_EQ(refused(Exit::mismatch), "the hub refuses the token in HF_TOKEN; make another one at " +
                                         access.endpoint + "/settings/tokens");
}

TEST_F(PullRefusals, OtherRefusalsSayWhatTheServerSaid) {
  server.alter = [](const Asked&, Answer& answer) { answer = refusal(451, "", "not\x1b[31m here"); };
  EXPECT_NE(refused(Exit::input).find("answers with status 451: not\\x1b[31m here"), std::string::npos);
}

TEST_F(PullRefusals, TheDiskIsAskedBeforeTheFirstFile) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    for (Json& entry : json["siblings"])
      if (entry["rfilename"] == "model.safetensors") entry["lfs"]["size"] = std::int64_t{1} << 49;
    answer.body = json.dump();
  };
  EXPECT_NE(refused(Exit::storage).find("org/tiny: 563 TB are to be fetched, and "), std::string::npos);
  EXPECT_EQ(server.asked().size(), 1u);
}

TEST_F(PullRefusals, SizesThatNoDiskHasAreNotAdded) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    for (int i = 0; i < 9000; ++i)
      json["siblings"].push_back({{"rfilename", str("model-", i, ".safetensors")},
                                  {"size", std::int64_t{1} << 50},
                                  {"blobId", std::string(40, 'e')}});
    answer.body = json.dump();
  };
  EXPECT_EQ(refused(Exit::input), "org/tiny: its files have more than 1,126 TB");
}

TEST_F(PullRefusals, AnotherCommitThanThatAskedForIsRefused) {
  name.revision = std::string(40, 'a');
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.path.starts_with("/api/"))
      answer.body = R"({"sha": ")" + std::string(40, 'b') + R"(", "siblings": []})";
  };
  EXPECT_NE(refused(Exit::input).find("lists another commit"), std::string::npos);
}

TEST_F(PullRefusals, AHostileListingReachesNothing) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    json["siblings"][0]["rfilename"] = "../../../escaped.json";
    answer.body = json.dump();
  };
  EXPECT_NE(refused(Exit::input).find("a name must stay in its folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(access.cache));
}

TEST_F(PullRefusals, AnEndlessListingIsCutOff) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.path.starts_with("/api/")) answer.body.assign((std::size_t{64} << 20) + 1, ' ');
  };
  EXPECT_NE(refused(Exit::input).find("the answer is larger than"), std::string::npos);
}

TEST_F(PullRefusals, AnEndlessRefusalIsCutOff) {
  server.alter = [&](const Asked&, Answer& answer) {
    answer = {.status = 404, .body = std::string(std::size_t{2} << 20, ' ')};
  };
  EXPECT_NE(refused(Exit::input).find("the answer is larger than"), std::string::npos);
}

TEST_F(PullRefusals, APageThatIsNoHub) {
  server.alter = [](const Asked&, Answer& answer) { answer.body = "<html>Please log in</html>"; };
  EXPECT_NE(refused(Exit::input).find("not JSON"), std::string::npos);
}

}  // namespace
}  // namespace ft::test
