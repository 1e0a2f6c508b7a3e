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

std::vector<VoicePtr> VoiceList::all() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

VoicePtr VoiceList::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(all_, name, [](const VoicePtr& v) { return v->name; });
  return at == all_.end() ? nullptr : *at;
}

void VoiceList::put(VoicePtr voice) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(all_, voice->name, [](const VoicePtr& v) { return v->name; });
  if (at == all_.end())
    all_.push_back(std::move(voice));
  else
    *at = std::move(voice);
}

void VoiceList::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const VoicePtr& v) { return v->name == name; });
}

VoicePtr make_voice(const Answerer& a, const std::string& name, const std::string& folder,
                    std::int32_t adapter) {
  auto v = std::make_shared<Voice>();
  v->name = name;
  v->adapter = adapter;
  const bool own = !a.config.model.tokenizer_name_or_path && holds_tokenizer(folder);
  if (own) v->own = make_tokenizer(folder);
  v->tokenizer = own ? v->own.get() : &a.text();
  v->asking.emplace(a, folder, own ? folder : a.config.model.tokenizer(), *v->tokenizer);
  (void)v->asking->has_turns();  // throws if its template cannot be read
  return v;
}

std::vector<VoicePtr> make_voices(const Answerer& a, const std::string& model_name,
                                  const std::vector<lora::AdapterChoice::Named>& adapters) {
  auto model = std::make_shared<Voice>();
  model->name = model_name;
  model->tokenizer = &a.text();
  model->asking.emplace(a);
  (void)model->asking->has_turns();
  std::vector<VoicePtr> all{std::move(model)};
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const auto same = [&](const VoicePtr& other) { return other->name == adapters[i].name; };
    if (adapters[i].name.empty() || std::ranges::any_of(all, same))
      throw UserError(Exit::config, str("--adapter: the name \"", printable(adapters[i].name),
                                        "\" is empty or taken; give another one: --adapter NAME=DIR"));
    all.push_back(make_voice(a, adapters[i].name, adapters[i].folder, static_cast<std::int32_t>(i)));
  }
  return all;
}

}  // namespace ft
