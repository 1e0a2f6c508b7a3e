#include "data/tokenizers/clean_up.h"

#include <utility>

#include "data/files/utf8.h"

namespace ft {

std::string cleaned_up(std::string text) {
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    text = replaced(text, from, to);
  return text;
}

}  // namespace ft
