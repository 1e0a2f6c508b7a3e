#include "engine/ranks/whereabouts.h"

#include <algorithm>
#include <cstring>

#include "engine/core/error.h"

namespace ft {

const char* name_of(Collective c) {
  switch (c) {
    case Collective::none:
      return "no collective";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::transfer:
      return "transfer";
    case Collective::barrier:
      return "barrier";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send_receive:
      return "send_receive";
  }
  return "an unknown operation";
}

namespace {

void set(std::array<char, 64>& to, std::string_view text) {
  to.fill(0);
  std::copy_n(text.data(), std::min(text.size(), to.size() - 1), to.data());
}

std::string text_of(const std::array<char, 64>& a) {
  return printable({a.data(), strnlen(a.data(), a.size())});
}

}  // namespace

void Whereabouts::set_about(std::string_view text) { set(about, text); }

void Whereabouts::set_group(std::string_view text) { set(group, text); }

std::string describe(const Whereabouts& p) {
  std::string text = p.step > 0 ? str("at step ", p.step) : "before the first step";
  if (p.what == Collective::none) return text;
  text += str(p.inside ? ", in " : ", after ", name_of(p.what), " number ", p.number);
  if (p.about[0]) text += " of " + text_of(p.about);
  if (p.group[0]) text += " in " + text_of(p.group);
  return text;
}

}  // namespace ft
