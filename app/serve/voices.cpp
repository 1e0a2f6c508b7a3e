#include "app/serve/voices.h"

#include <algorithm>

#include "app/files/model_files.h"
#include "app/serve/serve.h"

namespace ft {

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
  all[0].asking.emplace(a);
  (void)all[0].asking->has_turns();  // throws if its template cannot be read
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
    v.asking.emplace(a, adapters[i].folder, own ? adapters[i].folder : a.config.model.tokenizer(),
                     *v.tokenizer);
    (void)v.asking->has_turns();
  }
  return all;
}

}  // namespace ft
