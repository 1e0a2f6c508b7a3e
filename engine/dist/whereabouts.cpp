#include "engine/dist/whereabouts.h"

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
  }
  return "an unknown operation";
}

void Whereabouts::set_about(std::string_view text) {
  about.fill(0);
  std::copy_n(text.data(), std::min(text.size(), about.size() - 1), about.data());
}

std::string describe(const Whereabouts& p) {
  std::string text = p.step > 0 ? str("at step ", p.step) : "before the first step";
  if (p.what == Collective::none) return text;
  text += str(p.inside ? ", in " : ", after ", name_of(p.what), " number ", p.number);
  if (p.about[0]) text += str(" of ", printable({p.about.data(), strnlen(p.about.data(), p.about.size())}));
  return text;
}

}  // namespace ft
