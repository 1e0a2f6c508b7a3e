#include "app/serve/adapter_slots.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "app/serve/api_error.h"

namespace ft {
namespace {

constexpr std::chrono::milliseconds kWait{10};
constexpr std::chrono::seconds kLongestWait{10};  // for the last answers of an unloaded adapter

}  // namespace

AdapterSlots::AdapterSlots(const Answerer& a, VoiceList& voices, lora::AdapterChoice& adapters,
                           Errands& errands, Ops& ops, std::int32_t first, std::int32_t count)
    : answerer_(a),
      voices_(voices),
      adapters_(adapters),
      errands_(errands),
      ops_(ops),
      first_(first),
      slots_(static_cast<std::size_t>(count)) {}

AdapterSlots::Slot* AdapterSlots::slot_of(const std::string& name) {
  const auto at = std::ranges::find(slots_, name, &Slot::name);
  return at == slots_.end() ? nullptr : &*at;
}

std::int32_t AdapterSlots::free_slot() const {
  const auto at =
      std::ranges::find_if(slots_, [](const Slot& s) { return s.name.empty() && s.voice.expired(); });
  return at == slots_.end() ? -1 : static_cast<std::int32_t>(at - slots_.begin());
}

void AdapterSlots::load(const std::string& name, const std::string& folder, bool in_place) {
  if (name.empty()) throw ApiError(400, "lora_name: must not be empty", "lora_name");
  const std::lock_guard lock(mutex_);
  Slot* const before = slot_of(name);
  if (!before && voices_.find(name))
    throw ApiError(400, str("lora_name: ", printable(name, 100), " is a model that this server started with"),
                   "lora_name");
  if (before && !in_place)
    throw ApiError(400,
                   str("The lora adapter '", printable(name, 100),
                       "' has already been loaded; load_inplace replaces it"),
                   "lora_name");
  const lora::SlotValues values = adapters_.read_slot(folder);
  std::int32_t at = free_slot();
  if (at < 0 && before) {  // nobody else asks for it until it is there again
    voices_.remove(name);
    before->name.clear();
  }
  for (const auto until = std::chrono::steady_clock::now() + kLongestWait; at < 0; at = free_slot()) {
    if (std::chrono::steady_clock::now() > until)
      throw ApiError(503, str("all ", slots_.size(),
                              " places for adapters are in use (--max-loras); unload one, "
                              "or wait for its answers"));
    std::this_thread::sleep_for(kWait);
  }
  const VoicePtr voice = make_voice(answerer_, name, folder, first_ + at);
  if (!errands_.run([&] { adapters_.write_slot(ops_, at, values); }))
    throw ApiError(503, "the server is shutting down");
  if (Slot* const old = slot_of(name)) old->name.clear();
  slots_[static_cast<std::size_t>(at)] = {name, voice};
  voices_.put(voice);
}

void AdapterSlots::unload(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = name.empty() ? nullptr : slot_of(name);
  if (!slot)
    throw ApiError(404, str("The lora adapter '", printable(name, 100), "' cannot be found."), "lora_name");
  voices_.remove(name);
  slot->name.clear();
}

}  // namespace ft
