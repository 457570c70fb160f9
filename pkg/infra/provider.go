package infra

import "github.com/stagefleet/stagefleet/pkg/provider"

// providers are those that a stage's manifest entry may name.
var providers = map[string]providerOf{
	"speech": {
		parameters: Map{
			text("SpeechUrl", "Base of an OpenAI-compatible speech API; empty: the offline recogniser."),
			text("SpeechModel", "The speech model; empty: the default."),
			text("SpeechSecret", "ARN of the secret whose value is the speech API's key; empty: none."),
		},
		conditions:  Map{given("SpeechSecret")},
		environment: Map{{provider.SpeechURL, Ref("SpeechUrl")}, {provider.SpeechModel, Ref("SpeechModel")}},
		secrets:     []secret{{provider.SpeechKey, "SpeechSecret", "HasSpeechSecret"}},
	},
	"language": {
		parameters: Map{
			text("LanguageModel", "The language and vision model; empty: the default."),
			text("LanguageSecret", "ARN of the secret whose value is the Anthropic API's key; empty: the stage does without."),
		},
		conditions:  Map{given("LanguageSecret")},
		environment: Map{{provider.AnthropicModel, Ref("LanguageModel")}},
		secrets:     []secret{{provider.AnthropicKey, "LanguageSecret", "HasLanguageSecret"}},
	},
}
