// Porter's stemmer (Porter, "An algorithm for suffix stripping", 1980) with the changes that NLTK makes to
// it, as rouge-score uses it.
#pragma once
#include <string>

namespace ft::metrics {

// A word of a-z and 0-9, more than two letters long, without what inflects it: "connected" and "connection"
// become "connect".
std::string porter_stem(std::string word);

}  // namespace ft::metrics
