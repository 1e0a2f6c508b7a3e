// A hub of the test's own, and folders to send to it.
#pragma once
#include <gtest/gtest.h>

#include "app/push/push.h"
#include "tests/app/hub/hub_place.h"

namespace ft::test {

struct PushPlace : testing::Test {
  PushPlace() {
    write("adapter_model.safetensors", weights);
    write("adapter_config.json", R"({"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8})");
    access.endpoint = server.endpoint();
    access.token = server.token = "hf_secretsecret";
    access.token_source = "HF_TOKEN";
    limits.pause = std::chrono::milliseconds(1);
  }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((folder() / path).parent_path());
    std::ofstream(folder() / path, std::ios::binary) << text;
  }
  fs::path folder() const { return scratch.folder() / "result"; }
  hub::Choice chosen() {
    hub::PushArgs given = args;
    given.folder = folder().string();
    return hub::choose_with_card(given, sending.name, scratch.folder() / "hub");
  }
  hub::Pushed push() {
    Screen::Options options;
    options.write = [this](const std::string& text) { shown += text; };
    Screen screen(options);
    return hub::push(access, sending, chosen(), screen, limits);
  }
  // Returns the message of a push that fails. Expects that nothing was committed, and no token was shown.
  std::string refused(Exit code) {
    const std::string message = error_of(code, [&] { push(); });
    EXPECT_TRUE(server.commits.empty()) << message;
    EXPECT_EQ((message + shown).find("secret"), std::string::npos);
    return message;
  }
  std::map<std::string, ServedFile>& remote(const std::string& id = "models/org/tiny") {
    return server.repositories[id].files;
  }
  std::int64_t requests(const std::string& method, const std::string& part) const {
    std::int64_t count = 0;
    for (const Asked& asked : server.asked())
      count += asked.method == method && asked.path.find(part) != asked.path.npos ? 1 : 0;
    return count;
  }

  const std::string weights = some_bytes(300'000);
  HubServer server;
  Scratch scratch;
  hub::Access access;
  hub::Sending sending{.name = {HubKind::model, "org/tiny"}, .message = "Upload"};
  hub::PushArgs args;
  hub::TransferLimits limits;
  std::string shown;  // on the screen
};

}  // namespace ft::test
