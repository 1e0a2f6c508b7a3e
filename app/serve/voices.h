// The models that requests can name: the served model, and the model with each adapter. Each reads
// conversations with its own tokenizer and chat template if its folder has them.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/answers/asking.h"
#include "app/answers/generation.h"
#include "lora/choice.h"

namespace ft {

struct Voice {
  std::string name;
  std::int32_t adapter = -1;             // number of the adapter; -1: none
  std::unique_ptr<Tokenizer> own;        // the adapter's tokenizer, if it has one
  const Tokenizer* tokenizer = nullptr;  // never null
  std::optional<Asking> asking;          // always set
};

using VoicePtr = std::shared_ptr<const Voice>;

// The voices of a server, the model's first. Many threads use it at once. A voice exists as long as someone
// holds it, also after its removal.
class VoiceList {
 public:
  explicit VoiceList(std::vector<VoicePtr> voices) : all_(std::move(voices)) {}

  std::vector<VoicePtr> all() const;
  VoicePtr find(const std::string& name) const;  // null: there is none
  void put(VoicePtr);                            // in place of the one with its name, or at the end
  void remove(const std::string& name);

 private:
  mutable std::mutex mutex_;
  std::vector<VoicePtr> all_;
};

// Returns the voice of an adapter, with its folder's tokenizer and prompts if it has them. Throws UserError
// (input) if these cannot be read.
VoicePtr make_voice(const Answerer&, const std::string& name, const std::string& folder,
                    std::int32_t adapter);

// Returns the voices, the model's first. Throws UserError (config) if two names are equal, (input) if a
// folder is not an adapter or its tokenizer cannot be read.
std::vector<VoicePtr> make_voices(const Answerer&, const std::string& model_name,
                                  const std::vector<lora::AdapterChoice::Named>& adapters);

// Reads NAME=DIR, or DIR, whose last part is the name.
lora::AdapterChoice::Named adapter_named(const std::string& argument);

}  // namespace ft
