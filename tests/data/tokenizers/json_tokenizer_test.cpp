// tokenizer.json: each of its parts, refusals, and damaged files.
#include <gtest/gtest.h>

#include "data/tokenizers/json/byte_level.h"
#include "data/tokenizers/json/charsmap.h"
#include "data/tokenizers/json/pre_tokenizer.h"
#include "data/tokenizers/json/token_decoder.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/unicode.h"
#include "engine/files/file.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = Tokenizer::Ids;

const std::string kKinds = source_path("tests/data/tokenizers/");

class JsonTokenizerTest : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> make(const std::string& json, const std::string& config = "{}") {
    scratch.write("tokenizer_config.json", config);
    return make_tokenizer(scratch.write("tokenizer.json", json).parent_path());
  }
  // Returns a tokenizer of the letters a and b and of "ab"; `more` are members of the file before the model.
  std::unique_ptr<Tokenizer> letters(const std::string& more, const std::string& config = "{}") {
    return make("{" + more + R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<unk>": 3},
                              "merges": ["a b"], "unk_token": "<unk>"}})",
                config);
  }
  std::string error(const std::string& json) {
    const std::string text = error_of(Exit::input, [&] { make(json)->encode("abc"); });
    const std::size_t at = text.find("tokenizer.json");
    return at == std::string::npos ? text : text.substr(at);
  }
  const Scratch scratch;
};

TEST_F(JsonTokenizerTest, ModelsAndAddedTokens) {
  const auto t = letters(R"("added_tokens": [{"id": 4, "content": "<x>", "special": true}],)");
  EXPECT_EQ(t->encode("abba<x>c"), (Ids{2, 1, 0, 4, 3}));
  EXPECT_EQ(t->size(), 5);
  EXPECT_EQ(t->token(4), "<x>");
  EXPECT_EQ(t->id("ab"), 2);
  EXPECT_EQ(t->id("c"), std::nullopt);
  EXPECT_EQ(t->decode(Ids{2, 4, 1}, false), "ab <x> b");  // without a decoder, tokens are joined by spaces
  EXPECT_EQ(t->decode(Ids{2, 4, 1}, true), "ab b");
  EXPECT_EQ(t->bos(), std::nullopt);
  EXPECT_EQ(t->decode(Ids{5, 2, 1 << 30, 1, -1}, false), "ab b");  // ids without a token give no text
  EXPECT_EQ(error_of(Exit::input, [&] { t->encode("a\xFF"); }), "a text is not UTF-8: a\\xff");
}

// Files made of Gemma's GGUF contain such tokens. Hugging Face's library uses the last one.
TEST_F(JsonTokenizerTest, ATokenThatAppearsTwice) {
  const auto unigram = make(R"({"model": {"type": "Unigram", "unk_id": 0,
                                          "vocab": [["<unk>", 0], ["a", -1], ["b", -2], ["a", -3]]}})");
  EXPECT_EQ(unigram->encode("ab"), (Ids{3, 2}));
  EXPECT_EQ(unigram->decode(Ids{1, 3}, false), "a a");
  EXPECT_EQ(unigram->size(), 4);
  const auto bpe = make(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "a": 2}, "merges": []}})");
  EXPECT_EQ(bpe->encode("ab"), (Ids{2, 1}));
}

// White space that one added token has matched is not available to the next, even if that one would match it
// too.
TEST_F(JsonTokenizerTest, AddedTokensOfWhiteSpace) {
  const auto with = [&](const char* flags) {
    return letters(str(R"("added_tokens": [{"id": 4, "content": "\n", "special": false, )", flags, "}],"));
  };
  const auto both = with(R"("lstrip": true, "rstrip": true)");
  EXPECT_EQ(both->encode("a\n\nb"), (Ids{0, 4, 1}));
  EXPECT_EQ(both->encode("a\n \n\nb\n"), (Ids{0, 4, 1, 4}));
  EXPECT_EQ(with(R"("rstrip": true)")->encode("a\n\nb"), (Ids{0, 4, 4, 1}));
  EXPECT_EQ(with(R"("lstrip": true)")->encode("a\n\nb"), (Ids{0, 4, 4, 1}));
}

// Scores are read with the same rounding as in the library: the costs of two ways to cut a text may differ
// only by it.
TEST_F(JsonTokenizerTest, ScoresAreReadAsTheLibraryReadsThem) {
  const auto encode = [&](const char* x, const char* one, const char* three) {
    return make(str(R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["x", )", x,
                    R"(], ["#", )", one, R"(], ["###", )", three, "]]}}"))
        ->encode("x####");
  };
  EXPECT_EQ(encode("-3.896790165545058", "-1.8763505374391733", "-5.497447842833618"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode("-1.9143746692293406", "-7.176592353053139", "-0.701435402597093"), (Ids{1, 3, 2}));
  EXPECT_EQ(encode("-3.6235867224696827", "-1.325890307712648", "-2.4651764936847185"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode("-1", "0", "-1e300"), (Ids{1, 2, 2, 2, 2}));
}

TEST_F(JsonTokenizerTest, TheConfigurationHasTheLastWord) {
  const std::string added = R"("added_tokens": [{"id": 4, "content": "<x>", "special": true}],)";
  EXPECT_EQ(letters(added, R"({"bos_token": "<x>", "add_bos_token": true})")->encode_with_specials("ab"),
            (Ids{4, 2}));
  EXPECT_EQ(letters(added, R"({"eos_token": "<x>", "add_eos_token": true})")->encode_with_specials("ab"),
            (Ids{2, 4}));
  // Flags of added_tokens_decoder replace flags of tokenizer.json; a new name is added.
  const auto t = letters(added, R"({"pad_token": "<pad>", "added_tokens_decoder": {
      "4": {"content": "<x>", "special": false, "lstrip": true}}})");
  EXPECT_EQ(t->encode("ab  <x>"), (Ids{2, 4}));
  EXPECT_FALSE(t->is_special(4));
  EXPECT_EQ(t->pad(), 5);
  EXPECT_TRUE(t->is_special(5));
}

TEST_F(JsonTokenizerTest, PostProcessors) {
  const std::string x = R"("added_tokens": [{"id": 4, "content": "<x>", "special": true}],)";
  const std::string one =
      R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"x": {"id": "x", "ids": [4], "tokens": ["<x>"]}}})";
  EXPECT_EQ(letters(x + R"("post_processor": )" + one + ",")->encode_with_specials("ab"), (Ids{4, 2}));
  EXPECT_EQ(letters(x + R"("post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" +
                    one + "]},")
                ->prefix(),
            (Ids{4}));
  EXPECT_EQ(error_of(Exit::input, [&] { letters(R"("post_processor": )" + one + ","); }),
            (scratch.folder() / "tokenizer.json").string() +
                ": post_processor needs the token <x>, which is not in the vocabulary");
}

TEST_F(JsonTokenizerTest, VocabularyAndMerges) {
  scratch.write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "<|endoftext|>": 4})");
  scratch.write("merges.txt", "#version: 0.2\na b\n");
  scratch.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  auto t = make_tokenizer(scratch.folder());
  EXPECT_EQ(t->encode("ab a<|endoftext|>"), (Ids{2, 3, 0, 4}));
  EXPECT_EQ(t->decode(Ids{2, 3, 0, 4}, true), "ab a");
  EXPECT_EQ(t->eos(), 4);
  scratch.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true,
                                             "bos_token": "<|endoftext|>", "add_bos_token": true})");
  EXPECT_EQ(make_tokenizer(scratch.folder() / "vocab.json")->encode_with_specials("ab"), (Ids{4, 3, 2}));
  scratch.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_EQ(make_tokenizer(scratch.folder())->encode(" ab"), (Ids{3, 2}));
  scratch.write("merges.txt", "a b c\n");
  EXPECT_EQ(error_of(Exit::input, [&] { make_tokenizer(scratch.folder()); }),
            (scratch.folder() / "merges.txt").string() + ":1: a b c is not two tokens separated by a space");
}

TEST_F(JsonTokenizerTest, UnknownPartsAreNamed) {
  const auto with = [](const std::string& part) {
    return "{" + part + R"("model": {"vocab": {"a": 0}, "merges": []}})";
  };
  EXPECT_EQ(error("{}"), "tokenizer.json: has no model; it must be an object");
  EXPECT_EQ(error(R"({"model": {"type": "WordPiece", "vocab": {}}})"),
            "tokenizer.json: model.type must be BPE or Unigram: ft knows these models, is \"WordPiece\"");
  EXPECT_EQ(error(with(R"("normalizer": {"type": "Lowercase"},)")),
            "tokenizer.json: normalizer.type must be one of NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, "
            "Precompiled, ByteLevel, Sequence: ft knows these normalizers, is \"Lowercase\"");
  EXPECT_EQ(
      error(
          with(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}]},)")),
      "tokenizer.json: pre_tokenizer.pretokenizers[0].type must be one of Split, ByteLevel, Metaspace, "
      "Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence: ft knows these pre-tokenizers, is "
      "\"BertPreTokenizer\"");
  EXPECT_EQ(error(with(R"("decoder": {"type": "CTC"},)")),
            "tokenizer.json: decoder.type must be one of ByteLevel, Metaspace, Replace, ByteFallback, Fuse, "
            "Strip, Sequence: ft knows these decoders, is \"CTC\"");
  EXPECT_EQ(error(with(R"("post_processor": {"type": "BertProcessing"},)")),
            "tokenizer.json: post_processor.type must be one of TemplateProcessing, ByteLevel, Sequence: ft "
            "knows these post-processors, is \"BertProcessing\"");
  EXPECT_EQ(error(R"({"model": {"dropout": 0.1, "vocab": {"a": 0}, "merges": []}})"),
            "tokenizer.json: model.dropout must be null: ft does not support BPE dropout, is 0.1");
  EXPECT_EQ(
      error(R"({"model": {"end_of_word_suffix": "</w>", "vocab": {"a": 0}, "merges": []}})"),
      "tokenizer.json: model.end_of_word_suffix must be empty: ft does not support affixes of subwords, is "
      "\"</w>\"");
  EXPECT_EQ(error(with(
                      R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                                          "pattern": {"Regex": "a|\\hx"}},)"))
                .substr(std::string("tokenizer.json").size()),
            ": the pattern a|\\hx cannot be used: ft does not know \\h at byte 2");
}

TEST_F(JsonTokenizerTest, BrokenFiles) {
  const auto model = [](const std::string& keys) { return R"({"model": {)" + keys + "}}"; };
  EXPECT_EQ(error(model(R"("vocab": {"a": -1}, "merges": [])")),
            "tokenizer.json: model: the token a has the id -1");
  EXPECT_EQ(error(model(R"("vocab": {"a": 0, "b": 0}, "merges": [])")),
            "tokenizer.json: model: the tokens a and b both have the id 0");
  EXPECT_EQ(error(model(R"("vocab": {"a": 0}, "merges": ["a b"])")),
            "tokenizer.json: model: a merge needs the token b, which is not in the vocabulary");
  EXPECT_EQ(error(model(R"("vocab": {"a": 0}, "merges": ["ab"])")),
            "tokenizer.json: model.merges: ab is not two tokens separated by a space");
  EXPECT_EQ(error(model(R"("vocab": {"a": 0}, "merges": [["a"]])")),
            "tokenizer.json: model.merges must be a list of pairs of tokens, is an array of 1");
  EXPECT_EQ(
      error(model(R"("unk_token": "<unk>", "vocab": {"a": 0}, "merges": [])")),
      "the tokenizer's unk_token <unk> is not in its vocabulary, and the text has an unknown character");
  EXPECT_EQ(error(model(R"("type": "Unigram", "unk_id": 2, "vocab": [["a", 0], ["b", -1]])")),
            "tokenizer.json: model: unk_id is 2; there are 2 pieces");
  EXPECT_EQ(error(model(R"("type": "Unigram", "vocab": [["a", 0], ["b", -1]])")),
            "the text has a character that is not in the tokenizer's vocabulary, and it has no unk_id");
  EXPECT_EQ(error(R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "####"}, "model": {}})"),
            "tokenizer.json: normalizer.precompiled_charsmap must be base64, is \"####\"");
  EXPECT_EQ(error(R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "model": {}})"),
            "tokenizer.json: precompiled_charsmap is cut short");
}

// A damaged file is refused or works; it never crashes.
TEST_F(JsonTokenizerTest, DamagedFilesNeverCrash) {
  for (const char* kind : {"llama3", "unigram-bytes", "gemma"}) {
    const std::string whole = read_file(kKinds + kind + "/tokenizer.json", 1 << 20);
    for (std::size_t i = 0; i < whole.size(); i += 61) {
      std::string bytes = whole;
      bytes[i] = "\"9[x"[i % 4];
      try {
        const auto t = make(bytes);
        t->decode(t->encode("Ada has \xF0\x9F\x98\x80 apples, <s> and Omar\r\n  it's"), true);
      } catch (const UserError& e) {
        EXPECT_EQ(e.code, Exit::input);
      }
    }
  }
}

TEST(TokenizerPattern, MatchesLikeOniguruma) {
  const std::string where = "tokenizer.json";
  const auto pieces = [&](const std::string& pattern, std::string_view text) {
    std::vector<std::string_view> out;
    split(text, Regex::oniguruma(pattern, where), SplitBehavior::isolated, false, out);
    std::string joined;
    for (const auto piece : out) joined += "[" + std::string(piece) + "]";
    return joined;
  };
  // U+180E is white space in PCRE2 but not in Unicode; U+017F is an s.
  EXPECT_EQ(pieces("\\s+", "a \xE1\xA0\x8E"), "[a][ ][\xE1\xA0\x8E]");
  EXPECT_EQ(pieces("[^\\s]+", "a \xE1\xA0\x8E"), "[a][ ][\xE1\xA0\x8E]");
  EXPECT_EQ(pieces("(?i:'s)", "it'\xC5\xBFx"), "[it]['\xC5\xBF][x]");
  EXPECT_EQ(pieces("\\u0041|\\x42|\\x{43}|\\v", "xAxBxC"), "[x][A][x][B][x][C]");
  EXPECT_EQ(pieces("x*", "ab"), "[a][b]");  // an empty match cuts too
  // Ends of lines. Words: ² belongs to them only outside of sets, and letters in circles do.
  EXPECT_EQ(pieces("^a|b$", "ab\nab\n"), "[a][b][\n][a][b][\n]");
  EXPECT_EQ(pieces("\\w+", "a_²Ⓐ-½"), "[a_²Ⓐ][-][½]");
  EXPECT_EQ(pieces("[\\w-]+", "a_²Ⓐ-½"), "[a_][²][Ⓐ-][½]");
  EXPECT_EQ(pieces("\\ba|a\\B", "a-aba"), "[a][-][a][ba]");
  EXPECT_EQ(pieces("(?i)k|\\W", "aK\xE2\x84\xAAkK-"), "[a][K][\xE2\x84\xAA][k][K][-]");
  for (const char* unknown : {"a(?i)b", "[\\W]", "\\h", "(?<n>a)", "(?m:a)", "[a[b]]", "[a&&b]", "a{,2}",
                              "a{2}+", "\\xC3", "(a)\\1", "(*FAIL)", "a\\"})
    EXPECT_NE(error_of(Exit::input, [&] { Regex::oniguruma(unknown, where); }).find("ft does not know"),
              std::string::npos)
        << unknown;
  EXPECT_EQ(error_of(Exit::input, [&] { pieces("^(a+)+$", std::string(40, 'a') + "b"); }),
            "a tokenizer's pattern failed on a text of 41 bytes: match limit exceeded");
  EXPECT_EQ(error_of(Exit::input, [&] { Regex::oniguruma("a)", where); }),
            "tokenizer.json: the pattern a) cannot be read: unmatched closing parenthesis at byte 1");
}

TEST(TokenizerPattern, Behaviors) {
  const auto pieces = [&](SplitBehavior behavior, bool invert = false) {
    std::vector<std::string_view> out;
    split("a--b-", Regex::literal("-"), behavior, invert, out);
    std::string joined;
    for (const auto piece : out) joined += "[" + std::string(piece) + "]";
    return joined;
  };
  EXPECT_EQ(pieces(SplitBehavior::removed), "[a][b]");
  EXPECT_EQ(pieces(SplitBehavior::removed, true), "[-][-][-]");
  EXPECT_EQ(pieces(SplitBehavior::isolated), "[a][-][-][b][-]");
  EXPECT_EQ(pieces(SplitBehavior::merged_with_previous), "[a-][-][b-]");
  EXPECT_EQ(pieces(SplitBehavior::merged_with_next), "[a][-][-b][-]");
  EXPECT_EQ(pieces(SplitBehavior::contiguous), "[a][--][b][-]");
}

TEST(TokenizerPattern, LongRunsOfSpaces) {
  const std::string text(std::size_t{1} << 21, ' ');
  std::vector<std::string_view> out;
  split(text + "x", Regex::oniguruma("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", ""), SplitBehavior::isolated, false,
        out);
  EXPECT_EQ(out.size(), 3U);
}

TEST(TokenizerUnicode, Forms) {
  EXPECT_EQ(normal_form("cafe\xCC\x81", NormalForm::nfc), "caf\xC3\xA9");
  EXPECT_EQ(normal_form("caf\xC3\xA9", NormalForm::nfd), "cafe\xCC\x81");
  EXPECT_EQ(normal_form("\xEF\xAC\x81", NormalForm::nfkc), "fi");
  EXPECT_EQ(grapheme_length("e\xCC\x81x", 0), 3U);
  EXPECT_EQ(grapheme_length("\r\nx", 0), 2U);
  EXPECT_TRUE(is_word_character(0x301));
  EXPECT_FALSE(is_word_character(0x2019));
}

TEST(TokenizerBytes, TheAlphabetIsInvertible) {
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  std::string written;
  append_byte_level(all, written);
  EXPECT_EQ(from_byte_level(written), all);
  EXPECT_EQ(from_byte_level("\xE2\x96\x81"), std::nullopt);
  EXPECT_EQ(lossy_utf8("a\xE2\x82|\xF0\x9F\x98\x80\x80"), "a\xEF\xBF\xBD|\xF0\x9F\x98\x80\xEF\xBF\xBD");
}

}  // namespace
}  // namespace ft
