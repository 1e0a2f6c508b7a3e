// The place of the hub's cache, the address, the token.
#include "app/hub/access.h"

#include <gtest/gtest.h>

#include "engine/core/environment.h"
#include "tests/data/scratch.h"

namespace ft::hub {
namespace {

using test::error_of;
using test::Scratch;

struct HubAccess : testing::Test {
  HubAccess() {
    for (const char* name :
         {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_ENDPOINT", "HF_TOKEN",
          "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
          "HF_HUB_DISABLE_IMPLICIT_TOKEN", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
      set_variable(name, "");
    set_variable("HOME", scratch.folder().string());
  }
  Scratch scratch;
};

TEST_F(HubAccess, TheCacheIsWhereHuggingFaceHubKeepsIt) {
  set_variable("HOME", "/home/me");
  EXPECT_EQ(cache_folder(), "/home/me/.cache/huggingface/hub");
  set_variable("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(cache_folder(), "/cache/huggingface/hub");
  set_variable("HF_HOME", "~/hf");
  EXPECT_EQ(cache_folder(), "/home/me/hf/hub");
  set_variable("HUGGINGFACE_HUB_CACHE", "/older");
  EXPECT_EQ(cache_folder(), "/older");
  set_variable("HF_HUB_CACHE", "/newer");
  EXPECT_EQ(cache_folder(), "/newer");
}

TEST_F(HubAccess, TheTokenIsTheVariablesElseTheFiles) {
  EXPECT_EQ(find_access().token, "");
  const std::string file = scratch.write(".cache/huggingface/token", " hf_file\n").string();
  EXPECT_EQ(find_access().token, "hf_file");
  EXPECT_EQ(find_access().token_source, file);
  const std::string other = scratch.write("other", "hf_other").string();
  set_variable("HF_TOKEN_PATH", "~/other");
  EXPECT_EQ(find_access().token, "hf_other");
  EXPECT_EQ(find_access().token_source, other);
  set_variable("HF_TOKEN", "hf_variable\n");
  EXPECT_EQ(find_access().token, "hf_variable");
  EXPECT_EQ(find_access().token_source, "HF_TOKEN");
  set_variable("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(find_access().token, "");
}

TEST_F(HubAccess, ATokenCannotAddFields) {
  set_variable("HF_TOKEN", "hf_secret\r\nX-Evil: 1");
  const std::string message = error_of(Exit::config, [] { find_access(); });
  EXPECT_TRUE(message.starts_with("HF_TOKEN: holds no token")) << message;
  EXPECT_EQ(message.find("secret"), std::string::npos);
}

TEST_F(HubAccess, TheEndpointIsAnAddress) {
  EXPECT_EQ(find_access().endpoint, "https://huggingface.co");
  set_variable("HF_ENDPOINT", "https://mirror.example/hf/");
  EXPECT_EQ(find_access().page(true, "org/name"), "https://mirror.example/hf/datasets/org/name");
  for (const char* wrong :
       {"mirror.example", "file:///x", "https://a b", "https://me:word@host", "https://"}) {
    set_variable("HF_ENDPOINT", wrong);
    EXPECT_NE(error_of(Exit::config, [] { find_access(); }).find("HF_ENDPOINT: "), std::string::npos)
        << wrong;
  }
}

TEST_F(HubAccess, APasswordInTheEndpointIsNotShown) {
  set_variable("HF_ENDPOINT", "https://me:sec@ret@mirror.example");
  EXPECT_EQ(error_of(Exit::config, [] { find_access(); }),
            "HF_ENDPOINT: mirror.example is no address of a hub, such as https://huggingface.co; leave the "
            "name and the password out");
}

TEST_F(HubAccess, OfflineMeansNoConnection) {
  for (const char* value : {"1", "ON", "yes", "True"}) {
    set_variable("HF_HUB_OFFLINE", value);
    EXPECT_EQ(error_of(Exit::config, [] { find_access(); }),
              "HF_HUB_OFFLINE is set, so nothing is fetched; unset it to open connections");
  }
  set_variable("HF_HUB_OFFLINE", "0");
  find_access();
}

TEST_F(HubAccess, AFileOfAuthoritiesMayBeNamed) {
  set_variable("SSL_CERT_FILE", "~/own.pem");
  EXPECT_EQ(find_access().certificates, (scratch.folder() / "own.pem").string());
}

}  // namespace
}  // namespace ft::hub
