// Adapters that requests load and unload, with vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter. The
// slots' memory is reserved at the start. An adapter keeps its slot until its last answer has ended.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/answers/generation.h"
#include "app/serve/errands.h"
#include "app/serve/voices.h"
#include "lora/choice.h"

namespace ft {

class AdapterSlots {
 public:
  // first: the number of the first slot among the adapters. The arguments outlive this object.
  AdapterSlots(const Answerer&, VoiceList&, lora::AdapterChoice&, Errands&, Ops&, std::int32_t first,
               std::int32_t count);

  bool any() const { return !slots_.empty(); }

  // Loads the adapter of a folder under a name. in_place: replaces the loaded adapter of this name. Throws
  // ApiError 400 if the name is taken or the folder is not an adapter that fits, 503 if no slot becomes free.
  void load(const std::string& name, const std::string& folder, bool in_place);
  // Open answers go on. Throws ApiError 404 if no adapter of this name was loaded.
  void unload(const std::string& name);

 private:
  struct Slot {
    std::string name;                  // empty: nothing is loaded
    std::weak_ptr<const Voice> voice;  // expired: no answer uses it
  };
  Slot* slot_of(const std::string& name);
  std::int32_t free_slot() const;  // -1: there is none

  const Answerer& answerer_;
  VoiceList& voices_;
  lora::AdapterChoice& adapters_;
  Errands& errands_;
  Ops& ops_;
  std::int32_t first_;
  std::mutex mutex_;  // one change at a time
  std::vector<Slot> slots_;
};

}  // namespace ft
