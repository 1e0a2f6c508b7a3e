// The folders of models that are named by ids.
#include "app/config/hub_folders.h"

#include <gtest/gtest.h>

#include "engine/core/environment.h"
#include "tests/data/scratch.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;

TEST(HubFolders, IdsAreFoundAndPathsAreLeft) {
  const Scratch scratch;
  set_variable("HF_HUB_CACHE", scratch.folder().string());
  scratch.write("models--org--name/refs/main", "c0ffee");
  const std::string file = scratch.write("models--org--name/snapshots/c0ffee/config.json", "{}").string();
  HubFolders folders;
  for (const char* name : {"org/name", "org/other", "/tmp", "a/b/c"}) folders.find(name, {}, "model.x");
  EXPECT_EQ(folders.at("org/name") + "/config.json", file);
  EXPECT_EQ(folders.at("/tmp"), "/tmp");
  EXPECT_EQ(folders.at("a/b/c"), "a/b/c");
  EXPECT_EQ(folders.at("never asked for"), "never asked for");
  EXPECT_TRUE(folders.is_id("org/other"));
  EXPECT_FALSE(folders.is_id("/tmp"));
  EXPECT_EQ(
      error_of(Exit::input, [&] { folders.at("org/other"); }),
      str("org/other: no such folder, and the hub's cache ", scratch.folder().string(),
          " does not have it (model.x). This fetches it: ft pull org/other (or hf download org/other)"));
}

// A name that looks like an id of the hub may be a mistyped path.
TEST(HubFolders, AMistypedPathGetsAHint) {
  const Scratch scratch;
  set_variable("HF_HUB_CACHE", (scratch.folder() / "hub").string());
  scratch.write("models/llama/config.json", "{}");
  scratch.write("models/t5/config.json", "{}");
  const auto what = [&](const std::string& name) {
    HubFolders folders;
    folders.find(name, {}, "model.x", scratch.folder());
    return error_of(Exit::input, [&] { folders.at(name); });
  };
  EXPECT_EQ(what("models/lama"),
            str("models/lama: no such folder; do you mean models/llama? (model.x)\n  as an id of the hub: ",
                (scratch.folder() / "hub").string(),
                " does not have it; this fetches it: ft pull models/lama (or hf download models/lama)"));
  EXPECT_EQ(what("models/qwen3").substr(0, 54), "models/qwen3: no such folder; models has llama, t5 (mo");
  EXPECT_NE(what("org/other").find("This fetches it: ft pull org/other"), std::string::npos);
}

}  // namespace
}  // namespace ft
