#include "app/serve/voices.h"

#include <algorithm>

#include "app/files/model_files.h"
#include "app/serve/serve.h"

namespace ft {
namespace {

void add_chat(Voice& v, const Answerer& a, const std::string& tokenizer_path) {
  v.plain_ends = {a.end_tokens, a.config.generation.stop_strings.value_or(std::vector<std::string>{})};
  v.chat_ends = v.plain_ends;
  const auto& setting = a.config.data.chat_template;
  if (a.reads_sources()) {
    if (setting)
      throw UserError(Exit::config,
                      "data.chat_template: an encoder-decoder reads one text at a time, without turns");
    return;
  }
  if (!setting && !holds_chat_template(tokenizer_path)) return;
  v.chat.emplace(a.config.data, tokenizer_path, *v.tokenizer);
  v.chat_ends.add(v.chat->end(), *v.tokenizer);
}

}  // namespace

lora::AdapterChoice::Named adapter_named(const std::string& argument) {
  const auto sign = argument.find('=');
  if (sign == std::string::npos) return {name_of_model(argument), argument};
  return {argument.substr(0, sign), argument.substr(sign + 1)};
}

std::vector<Voice> make_voices(const Answerer& a, const std::string& model_name,
                               const std::vector<lora::AdapterChoice::Named>& adapters) {
  std::vector<Voice> all(1 + adapters.size());
  all[0].name = model_name;
  all[0].tokenizer = &a.text();
  add_chat(all[0], a, a.config.model.tokenizer());
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    Voice& v = all[i + 1];
    v.name = adapters[i].name;
    v.adapter = static_cast<std::int32_t>(i);
    const auto same = [&](const Voice& other) { return other.name == v.name; };
    if (v.name.empty() || std::count_if(all.begin(), all.end(), same) > 1)
      throw UserError(Exit::config, str("--adapter: the name \"", printable(v.name),
                                        "\" is empty or taken; give another one: --adapter NAME=DIR"));
    const bool own = !a.config.model.tokenizer_name_or_path && holds_tokenizer(adapters[i].folder);
    if (own) v.own = make_tokenizer(adapters[i].folder);
    v.tokenizer = own ? v.own.get() : all[0].tokenizer;
    add_chat(v, a, own ? adapters[i].folder : a.config.model.tokenizer());
  }
  return all;
}

}  // namespace ft
