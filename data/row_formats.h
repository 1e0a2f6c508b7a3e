// The formats of rows, in the order of messages and help. Each is defined in its own file.
#pragma once
#include <array>

#include "data/row_format.h"

namespace ft::row_formats {

extern const RowFormat kPromptCompletion, kAlpaca, kAlpacaChat, kMessages, kShareGpt, kText, kSegments,
    kTranslation, kPreferenceChosen, kTokenized, kPreference, kKto, kPreferenceTokenized, kKtoTokenized,
    kRolloutsTokenized, kPrompts, kPromptsTokenized, kTokenLabels, kContrast, kContrastTokenized;

// Rows of types text and tokenized in a run that classifies.
extern const RowFormat kTextClasses, kTokenizedClasses;

inline constexpr std::array kRowFormats{&kDetected,
                                        &kPromptCompletion,
                                        &kAlpaca,
                                        &kAlpacaChat,
                                        &kMessages,
                                        &kShareGpt,
                                        &kText,
                                        &kSegments,
                                        &kTranslation,
                                        &kPreferenceChosen,
                                        &kTokenized,
                                        &kPreference,
                                        &kKto,
                                        &kPreferenceTokenized,
                                        &kKtoTokenized,
                                        &kRolloutsTokenized,
                                        &kPrompts,
                                        &kPromptsTokenized,
                                        &kTokenLabels,
                                        &kContrast,
                                        &kContrastTokenized};

// The order in which the fields of rows are compared with formats; the first format that fits is chosen.
inline constexpr std::array kDetectionOrder{&kTokenLabels,       &kContrast,
                                            &kContrastTokenized, &kPromptsTokenized,
                                            &kPrompts,           &kPreferenceTokenized,
                                            &kKtoTokenized,      &kRolloutsTokenized,
                                            &kPreference,        &kKto,
                                            &kTokenized,         &kMessages,
                                            &kShareGpt,          &kPreferenceChosen,
                                            &kPromptCompletion,  &kAlpaca,
                                            &kAlpacaChat,        &kTranslation,
                                            &kSegments,          &kText};

}  // namespace ft::row_formats
