#include "tests/recipes/shapes.h"

#include <algorithm>

#include "engine/files/file.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {

const std::vector<Published> kPublished{{"Qwen/Qwen3-0.6B", 596'049'920, 0},
                                        {"Qwen/Qwen3-1.7B", 1'720'574'976, 0},
                                        {"Qwen/Qwen3-4B", 4'022'468'096, 33'030'144},
                                        {"Qwen/Qwen3-8B", 8'190'735'360, 0},
                                        {"Qwen/Qwen3-14B", 14'768'307'200, 0},
                                        {"Qwen/Qwen3-32B", 32'762'123'264, 0},
                                        {"meta-llama/Llama-3.2-1B-Instruct", 1'235'814'400, 0},
                                        {"meta-llama/Llama-3.2-3B-Instruct", 3'212'749'824, 0},
                                        {"meta-llama/Llama-3.1-8B-Instruct", 8'030'261'248, 41'943'040},
                                        {"meta-llama/Llama-3.3-70B-Instruct", 70'553'706'496, 0},
                                        {"google/gemma-3-270m-it", 268'098'176, 0},
                                        {"google/gemma-3-1b-it", 999'885'952, 13'045'760},
                                        {"microsoft/Phi-4-mini-instruct", 3'836'021'760, 23'068'672},
                                        {"microsoft/phi-4", 14'659'507'200, 0},
                                        {"HuggingFaceTB/SmolLM3-3B", 3'075'098'624, 30'228'480},
                                        {"mistralai/Mixtral-8x7B-Instruct-v0.1", 46'702'792'704, 0},
                                        {"openai/gpt-oss-20b", 20'914'757'184, 0},
                                        {"google/flan-t5-base", 247'577'856, 0},
                                        {"google/flan-t5-large", 783'150'080, 18'284'544},
                                        {"google/flan-t5-xl", 2'849'757'184, 35'389'440}};

std::string shapes_of(const std::string& id) {
  const std::size_t slash = id.find('/');
  return source_path("tests/recipes/shapes/" + id.substr(0, slash) + "--" + id.substr(slash + 1) + ".json");
}

Json least_plan(const std::string& id, const std::vector<std::string>& more) {
  const test::TempFolder folder;
  const std::string config = folder.write("config.json", read_file(shapes_of(id), 1 << 20));
  std::vector<std::string> words{"plan", "--json", "--model", config, "--gpu", "1.01GiB"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = run(words);
  EXPECT_EQ(o.code, 0) << id << ": " << o.err;
  return o.code == 0 ? Json::parse(o.out) : Json();
}

}  // namespace ft
