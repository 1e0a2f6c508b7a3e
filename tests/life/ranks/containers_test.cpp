// Containerfile and the example for Kubernetes: its command and variables start two ranks that find each
// other, and its names fit together.
#include <gtest/gtest.h>

#include <set>

#include "data/files/yaml.h"
#include "engine/core/environment.h"
#include "engine/core/error.h"
#include "tests/life/program.h"
#include "tests/life/ranks/ports.h"

namespace ft::test {
namespace {

// Returns a document of the example, 0 or 1.
std::string document(std::size_t index) {
  const std::string text = contents(source_path("configs/kubernetes/two_pods.yaml"));
  const std::size_t middle = text.find("\n---\n");
  return index == 0 ? text.substr(0, middle + 1) : text.substr(middle + 5);
}

Json part_of(std::size_t index, const std::string& key) {
  return Json::parse(read_yaml_key(document(index), key, "two_pods.yaml", 1).dump());
}

struct Containers : testing::Test {
  const Json service = part_of(0, "spec"), job = part_of(1, "spec"), pod = job["template"]["spec"];
  const Json container = pod["containers"][0];
  const std::string name = part_of(1, "metadata")["name"];

  Json variable_of(const std::string& wanted) const {
    for (const Json& entry : container["env"])
      if (entry["name"] == wanted) return entry;
    return {};
  }
  std::vector<std::string> arguments() const {
    std::vector<std::string> all;
    for (const Json& word : container["args"]) all.push_back(word);
    return all;
  }
};

TEST_F(Containers, TwoRanksFindEachOther) {
  const Workplace w("llama", kLora);
  std::vector<std::string> words = arguments();
  words.insert(words.end(),
               {"training.max_steps=2", "checkpointing.save_strategy=steps", "logging.progress=plain"});
  std::vector<pid_t> ranks;
  const std::string port = std::to_string(free_port());
  for (const std::string rank : {"0", "1"}) {
    for (const Json& entry : container["env"])
      if (entry.contains("value")) set_variable(entry["name"].get<std::string>().c_str(), entry["value"]);
    set_variable("RANK", rank);            // the pod's index
    set_variable("FT_TOKEN", "a secret");  // the secret's
    set_variable("MASTER_ADDR", "127.0.0.1");
    set_variable("MASTER_PORT", port);  // the machine may have other tests
    ranks.push_back(w.start(words));
  }
  for (const Json& entry : container["env"]) unsetenv(entry["name"].get<std::string>().c_str());
  for (const pid_t rank : ranks) EXPECT_EQ(Workplace::finish(rank), 0) << w.says();
  EXPECT_TRUE(fs::exists(w / "out/adapter_model.safetensors"));
  EXPECT_EQ(losses(w / "out").size(), 2u);
}

TEST_F(Containers, NamesFitTogether) {
  const std::string rank0 = name + "-0." + pod["subdomain"].get<std::string>();
  EXPECT_EQ(part_of(0, "metadata")["name"], pod["subdomain"]);
  EXPECT_EQ(service["clusterIP"], "None");
  EXPECT_EQ(service["selector"]["job-name"], name);
  EXPECT_EQ(job["completionMode"], "Indexed");
  EXPECT_EQ(job["completions"], job["parallelism"]);
  EXPECT_EQ(variable_of("WORLD_SIZE")["value"], job["completions"]);
  EXPECT_EQ(variable_of("MASTER_ADDR")["value"], rank0);
  EXPECT_NE(pod["initContainers"][0]["command"][2].get<std::string>().find("getent hosts " + rank0),
            std::string::npos);
  EXPECT_EQ(variable_of("MASTER_PORT")["value"], service["ports"][0]["port"]);
  EXPECT_EQ(variable_of("RANK")["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.annotations['batch.kubernetes.io/job-completion-index']");
  EXPECT_EQ(container["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
  EXPECT_EQ(container["workingDir"], container["volumeMounts"][0]["mountPath"]);
}

TEST_F(Containers, TheImageIsTheOneThatContainerfileMakes) {
  const std::string file = contents(source_path("Containerfile")), image = "ft:" FT_VERSION;
  EXPECT_EQ(container["image"], image);
  EXPECT_EQ(pod["initContainers"][0]["image"], image);
  EXPECT_NE(file.find("podman build -t " + image + " ."), std::string::npos);
  EXPECT_NE(file.find("WORKDIR " + container["workingDir"].get<std::string>()), std::string::npos);
  EXPECT_NE(file.find("ENTRYPOINT [\"ft\"]"), std::string::npos);
}

}  // namespace
}  // namespace ft::test
