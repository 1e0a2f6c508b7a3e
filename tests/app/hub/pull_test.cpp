// Fetching from a hub: the cache's layout, the choice of files, revisions, tokens, mirrors.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/core/environment.h"
#include "engine/files/json.h"
#include "tests/app/hub/hub_place.h"

namespace ft::test {
namespace {

using Pull = HubPlace;

const std::string kFirstCommit(40, 'a');

TEST_F(Pull, LaysTheCacheOutAsTheHubsLibraryDoes) {
  const hub::Pulled pulled = pull();
  EXPECT_EQ(pulled.folder, repository() / "snapshots" / kFirstCommit);
  EXPECT_EQ(pulled.files, 3);
  EXPECT_EQ(pulled.bytes, 300'010);
  EXPECT_EQ(pulled.received, 300'010);
  EXPECT_EQ(text_of(repository() / "refs/main"), kFirstCommit);  // without a line feed
  for (const std::string file : {"config.json", "tokenizer.json", "model.safetensors"}) {
    EXPECT_EQ(text_of(pulled.folder / file), served(file).contents) << file;
    EXPECT_EQ(fs::read_symlink(pulled.folder / file), "../../blobs/" + served(file).hash());
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(repository() / "blobs"), {}), 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(repository() / "snapshots"), {}), 1);
  EXPECT_EQ(find_in_hub_cache(access.cache, name), pulled.folder);
}

TEST_F(Pull, FetchesNothingTwice) {
  pull();
  const std::size_t before = server.asked().size();
  const hub::Pulled again = pull();
  EXPECT_EQ(server.asked().size(), before + 1);  // the list of files
  EXPECT_EQ(again.received, 0);
  EXPECT_EQ(again.files, 3);
  EXPECT_TRUE(hub::end_line("org/tiny", again).starts_with("complete org/tiny, 3 files, 300 kB -> "));
}

TEST_F(Pull, ANewCommitSharesTheFilesThatAreTheSame) {
  pull();
  server.repositories["models/org/tiny"].revisions["main"] = std::string(40, 'c');
  served("config.json").contents = "{\"b\": 2}";
  EXPECT_EQ(pull().received, 8);
  EXPECT_EQ(text_of(repository() / "refs/main"), std::string(40, 'c'));
  EXPECT_EQ(text_of(repository() / "snapshots" / kFirstCommit / "config.json"), "{}");
  EXPECT_EQ(text_of(*find_in_hub_cache(access.cache, name) / "config.json"), "{\"b\": 2}");
}

TEST_F(Pull, RevisionsAreBranchesTagsPullRequestsAndCommits) {
  server.repositories["models/org/tiny"].revisions["refs/pr/1"] = std::string(40, 'd');
  name.revision = "refs/pr/1";
  pull();
  EXPECT_EQ(text_of(repository() / "refs/refs/pr/1"), std::string(40, 'd'));
  EXPECT_TRUE(find_in_hub_cache(access.cache, name));
  name.revision = kFirstCommit;
  pull();
  EXPECT_FALSE(fs::exists(repository() / "refs" / kFirstCommit));
  EXPECT_TRUE(find_in_hub_cache(access.cache, name));
  name.revision = "../../x";
  EXPECT_NE(error_of(Exit::config, [&] { pull(); }).find("must stay in its folder"), std::string::npos);
}

TEST_F(Pull, FilesInFoldersAndStrangeNames) {
  const std::string odd = "data/a folder/50%#?\u00fc.jsonl";
  server.repositories["datasets/org/rows"].files = {{odd, {"{}\n"}},
                                                    {"README.md", {"---\n---\n"}},
                                                    {"data/t.parquet", {"PAR1", true}},
                                                    {"load.py", {"import"}}};
  name = {HubKind::dataset, "org/rows"};
  const hub::Pulled pulled = pull();
  EXPECT_EQ(pulled.files, 3);
  EXPECT_EQ(repository().filename(), "datasets--org--rows");
  EXPECT_EQ(text_of(pulled.folder / odd), "{}\n");
  EXPECT_TRUE(fs::read_symlink(pulled.folder / odd).string().starts_with("../../../../blobs/"));
  EXPECT_EQ(text_of(pulled.folder / "data/t.parquet"), "PAR1");
}

TEST_F(Pull, PatternsChooseAsTheHubsToolsDo) {
  const hub::Pulled all = pull({.include = {"*"}, .exclude = {"*.bin"}});
  EXPECT_EQ(all.files, 4);
  EXPECT_TRUE(fs::exists(all.folder / "original/consolidated.pth"));
  EXPECT_EQ(pull({.include = {"original/"}}).files, 1);
  EXPECT_NE(error_of(Exit::input, [&] { pull({.include = {"*.gguf"}}); }).find("none of its 5 files matches"),
            std::string::npos);
}

TEST_F(Pull, FilesWithTheSameContentsAreFetchedOnce) {
  served("adapter_model.safetensors") = served("model.safetensors");
  EXPECT_EQ(pull().received, 300'010);
  EXPECT_EQ(shown.find("waiting"), std::string::npos) << shown;
}

TEST_F(Pull, AFileOfNoBytes) {
  served("merges.txt").contents = "";
  EXPECT_TRUE(fs::exists(pull().folder / "merges.txt"));
}

TEST_F(Pull, TheTokenGoesToTheHubOnly) {
  server.token = access.token = "hf_secretsecret";
  access.token_source = "HF_TOKEN";
  pull();
  EXPECT_EQ(shown.find("secret"), std::string::npos);
  int elsewhere = 0;
  for (const Asked& asked : server.asked()) {
    EXPECT_EQ(asked.authorization, asked.hub ? "Bearer hf_secretsecret" : "") << asked.path;
    elsewhere += asked.hub ? 0 : 1;
  }
  EXPECT_EQ(elsewhere, 1);
}

TEST_F(Pull, ARedirectOnTheHubItselfKeepsTheToken) {
  server.token = access.token = "hf_secretsecret";
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.path == "/org/tiny/resolve/" + kFirstCommit + "/config.json")
      answer = {.status = 307,
                .fields = {{"Location", "/org/tiny/resolve/" + kFirstCommit + "/tokenizer.json?x=1"}}};
  };
  served("config.json") = served("tokenizer.json");
  EXPECT_EQ(text_of(pull().folder / "config.json"), "{\"a\": 1}");
}

TEST_F(Pull, AMirrorMayLeaveSizesAndHashesOut) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (asked.path.starts_with("/api/")) {
      Json json = Json::parse(answer.body);
      for (Json& entry : json["siblings"]) entry = {{"rfilename", entry["rfilename"]}};
      answer.body = json.dump();
    }
    if (asked.path.ends_with("/config.json")) answer.fields["ETag"] = "W/\"own-name_1\"";
  };
  const hub::Pulled pulled = pull();
  EXPECT_EQ(fs::read_symlink(pulled.folder / "config.json"), "../../blobs/own-name_1");
  EXPECT_EQ(fs::read_symlink(pulled.folder / "model.safetensors"),
            "../../blobs/" + served("model.safetensors").hash());
  EXPECT_EQ(server.asked_for("/model.safetensors")[0].method, "HEAD");
  EXPECT_EQ(text_of(pulled.folder / "model.safetensors"), served("model.safetensors").contents);
  EXPECT_NE(shown.find("config.json: the server tells no hash of it; only its size is checked\n"),
            std::string::npos)
      << shown;
  EXPECT_EQ(shown.find("model.safetensors: "), std::string::npos) << shown;
  server.alter = nullptr;  // the hub itself
  pull();
  EXPECT_EQ(fs::read_symlink(pulled.folder / "config.json"), "../../blobs/" + served("config.json").hash());
}

TEST_F(Pull, OneHashWithTwoSizesIsRefused) {
  server.alter = [this](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    for (Json& entry : json["siblings"])
      if (entry["rfilename"] == "tokenizer.json") entry["blobId"] = served("config.json").hash();
    answer.body = json.dump();
  };
  EXPECT_EQ(refused(Exit::input), str("org/tiny: tokenizer.json: has the hash ", served("config.json").hash(),
                                      " of another file, and another size"));
}

TEST_F(Pull, RemovesWhatAKilledProcessLeft) {
  const std::string tag = ".tmp-ft0123456789";
  const fs::path snapshot = repository() / "snapshots" / (kFirstCommit + tag);
  const fs::path reference = repository() / "refs" / (".main" + tag);
  const fs::path other = repository() / "refs" / (".other" + tag);
  fs::create_directories(snapshot / "onnx");
  fs::create_directories(reference.parent_path());
  for (const fs::path& file : {reference, other}) std::ofstream(file) << "half";
  pull();
  EXPECT_FALSE(fs::exists(snapshot));
  EXPECT_FALSE(fs::exists(reference));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(Pull, NamesTheNextCommandIfThereIsOne) {
  set_variable("HF_ENDPOINT", server.endpoint());
  set_variable("HF_HUB_CACHE", access.cache.string());
  served("tiny-Q4_K_M.gguf") = {"GGUF", true};
  served("adapter_config.json") = {"{}"};
  const auto next = [&](const std::string& pattern) {
    testing::internal::CaptureStdout();
    hub::pull_command({.id = "org/tiny", .patterns = {.include = {pattern}}});
    const std::string said = testing::internal::GetCapturedStdout();
    const std::size_t at = said.find("\nnext     ft train --config run.json model.model_name_or_path=");
    return at == said.npos ? "" : said.substr(said.find('=', at) + 1);
  };
  const fs::path folder = repository() / "snapshots" / kFirstCommit;
  EXPECT_EQ(next("adapter*"), "");
  EXPECT_EQ(next("*.gguf"), (folder / "tiny-Q4_K_M.gguf").string() + "\n");
  EXPECT_EQ(next("config.json"), "org/tiny\n");
  EXPECT_EQ(next("*.gguf"), (folder / "tiny-Q4_K_M.gguf").string() + "\n");
}

TEST_F(Pull, AProxyIsUsed) {
  access.endpoint = "http://hub.invalid";
  set_variable("http_proxy", server.endpoint());
  pull({.include = {"config.json"}});
  set_variable("http_proxy", "");
  EXPECT_EQ(server.asked_for("/config.json").size(), 1u);
}

TEST_F(Pull, SeveralFilesAtOnce) {
  for (int i = 0; i < 6; ++i)
    served(str("model-0000", i, ".safetensors")) = {some_bytes(100'000, 10 + i), true};
  server.alter = [](const Asked& asked, Answer& answer) { answer.pause = asked.hub ? 0 : 20; };
  pull();
  EXPECT_GE(server.most_at_once(), 3);
  EXPECT_LE(server.most_at_once(), limits.connections);
}

TEST_F(Pull, LinesOfALogAreWhole) {
  pull();
  EXPECT_EQ(shown, "fetching org/tiny: 3 files, 300 kB\n");
}

TEST_F(Pull, ATerminalHasABarWithRateAndTimeLeft) {
  server.alter = [](const Asked& asked, Answer& answer) { answer.pause = asked.hub ? 0 : 25; };
  Screen::Options options;
  options.live = true;
  options.width = [] { return 100; };
  options.write = [this](const std::string& text) { shown += text; };
  Screen screen(options);
  hub::pull(access, name, {}, screen, limits);
  EXPECT_NE(shown.find("\rorg/tiny  ="), std::string::npos) << shown;
  EXPECT_NE(shown.find("/s  "), std::string::npos) << shown;
  EXPECT_NE(shown.find(" left\x1b[K"), std::string::npos) << shown;
}

TEST_F(Pull, APythonsUnfinishedSnapshotIsCompleted) {
  const fs::path snapshot = repository() / "snapshots" / kFirstCommit;
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/gone", snapshot / "config.json");
  std::ofstream(snapshot / "tokenizer.json") << "its own";
  pull();
  EXPECT_EQ(text_of(snapshot / "config.json"), "{}");
  EXPECT_EQ(text_of(snapshot / "tokenizer.json"), "its own");
}

}  // namespace
}  // namespace ft::test
