// The data and the type of the computation, as all steps of DeepSpeed-Chat have them.
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/translate/deepspeed_chat.h"
#include "app/translate/sources.h"
#include "engine/files/file.h"

namespace ft::translate {
namespace {

[[noreturn]] void wrong_split(const std::string& split) {
  throw UserError(Exit::config, str("--data_split: ", printable(split),
                                    " is not three numbers, this step's above 0, such as 2,4,4"));
}

// Returns one number of "2,4,4" divided by their sum.
double share_of(const std::string& split, int step) {
  std::vector<double> parts;
  std::istringstream words(split);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty() || word.find_first_not_of("0123456789.") != word.npos || word.size() > 9)
      wrong_split(split);
    parts.push_back(std::stod(word));
  }
  const auto own = static_cast<std::size_t>(step);
  if (parts.size() != 3 || parts[own] <= 0) wrong_split(split);
  return parts[own] / (parts[0] + parts[1] + parts[2]);
}

struct ChatSources {
  Json train = Json::array(), held_out = Json::array();
};

void add_source(const std::string& name, double share, const char* type, ChatSources& to, Draft& draft) {
  const bool local = path_exists(name), own_files = name == "local/jsonfile";  // in DeepSpeed-Chat's folder
  const std::string train = own_files ? "data/train.json"
                            : local   ? name
                                      : exported_part(name, "", "train", draft);
  Json s{{"path", train}, {"type", type}};
  if (local) s.erase("type");
  if (share < 1) s["weight"] = share;
  to.train.push_back(s);
  if (local) return;
  const std::string held_out = own_files ? "data/eval.json" : exported_part(name, "", "test", draft);
  to.held_out.push_back({{"path", held_out}, {"type", type}});
}

}  // namespace

void choose_chat_sources(const Given& given, int step, const char* type, Draft& draft) {
  const double share = share_of(given.text("data_split", "2,4,4"), step);
  const Json paths = given.has("data_path") ? given.at("data_path") : Json::array({"Dahoas/rm-static"});
  ChatSources all;
  for (const auto& path : paths) add_source(path, share, type, all, draft);
  if (step == 0 && given.has("sft_only_data_path"))
    for (const auto& path : given.at("sft_only_data_path")) add_source(path, 1, type, all, draft);
  if (all.train.empty()) throw UserError(Exit::config, "--data_path: names no data");
  draft.set("data.datasets", all.train);
  if (!all.held_out.empty()) draft.set("data.eval_datasets", all.held_out);
}

void choose_chat_precision(const Given& given, Draft& draft) {
  const std::string dtype = given.text("dtype", "fp16");
  if (dtype != "fp16" && dtype != "bf16")
    throw UserError(Exit::config, str("--dtype: ", printable(dtype), " is neither fp16 nor bf16"));
  draft.set("training.fp16", dtype == "fp16");
  draft.set("training.bf16", dtype == "bf16");
}

}  // namespace ft::translate
