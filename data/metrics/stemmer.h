// Porter's stemmer (Porter, "An algorithm for suffix stripping", 1980) with NLTK's changes, as rouge-score
// uses it.
#pragma once
#include <string>

namespace ft::metrics {

// Returns the stem of a word of a-z and 0-9 with more than two letters: "connected" and "connection" become
// "connect".
std::string porter_stem(std::string word);

}  // namespace ft::metrics
