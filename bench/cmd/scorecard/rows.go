package main

import "strings"

// row is a promise of the scorecard.
type row struct {
	id     string
	title  string
	target string  // what passes
	tests  []suite // none: not built yet
}

// suite names tests of one package.
type suite struct {
	dir   string // from the root of the repository
	names string // separated by spaces
	race  bool   // with the race detector
	long  bool   // takes minutes: behind the build tag "long", and run with -long only
}

func (s suite) all() []string { return strings.Fields(s.names) }

// rows is the scorecard. A test that belongs here is added to its row and says
// its figure with t.Attr.
var rows = []row{
	{"S01", "Spoofed identity headers, 7 × 50", "0 extra permits of 350 tries", []suite{
		{dir: "proxy", names: "TestSpoofedIdentityHeadersBuyNothing"},
	}},
	{"S02", "Who the client is behind proxies", "all of ≥ 60 inputs", []suite{
		{dir: "rules", names: "TestClientBehindTrustedProxies TestForwardedIsParsedOrIgnoredButNeverHalfParsed"},
	}},
	{"S03", "One client on IPv6: /64, mapped, zone, port", "5 admitted of 50, in each of 6 families", []suite{
		{dir: "proxy", names: "TestAnAddressAdmitsItsLimitInWhateverFamilyOfSpellings"},
	}},
	{"S04", "Key headers: twice, with an underscore, nominated in Connection", "0 bypasses of 150", []suite{
		{dir: "proxy", names: "TestNoTrickWithAKeysHeaderPassesTwice"},
	}},
	{"S05", "Spellings of paths (≥ 26) and of hosts (≥ 12, among 150)", "each the same counter or 4xx; the upstream sees what was matched", []suite{
		{dir: "proxy", names: "TestNoSpellingOfAdminEscapesItsRule TestHostSpellingsAmong150HostsMeetTheirRule"},
	}},
	{"S06", "Spellings of queries, 10,001 parameters among them", "12 of 12 the same key or 400", []suite{
		{dir: "proxy", names: "TestSpellingsOfAQueryKeyAreTheSameKeyOr400"},
	}},
	{"S07", "Tunnels: CONNECT, h2c, odd upgrades, PRI, OPTIONS *", "0 unmetered upstream requests", []suite{
		{dir: "proxy", names: "TestConnectIsRefusedBeforeAnythingElse TestConnectOverHTTP2WithARequestInItsBodyIsRefused"},
		{dir: "proxy", names: "TestNoUpgradeButAWebSocketReachesTheUpstream TestMethodsThatAreNoneAreRefusedAndOddOnesAreMetered"},
	}},
	{"S08", "Framing of requests, ≥ 150 raw inputs", "0 unmetered upstream requests, 0 hangs, no 5xx and no unit back for a client's fault", []suite{
		{dir: "proxy", names: "TestOddFramingIsTheClientsFault TestOddRequestsOfHTTP2AreTheClientsFault"},
	}},
	{"S09", "HTTP/2 conformance: h2spec", "≥ 142 over TLS; in cleartext one less, which asks for a port of HTTP/2 alone", []suite{
		{dir: "bench/conformance", names: "TestH2spec"},
	}},
	{"S10", "HTTP/2 floods", "RSS + ≤ 20 MB, another client's p99 ≤ 2×, connection closed", []suite{
		{dir: "cmd/gateway", names: "TestHTTP2FloodsHarmNobodyElse"},
	}},
	{"S11", "Memory for what a client sends: 1,000 requests of 10 KiB", "≤ 100× (goal ≤ 10×)", []suite{
		{dir: "cmd/gateway", names: "TestMemoryIsInProportionToWhatAClientSends"},
	}},
	{"S12", "Limits of header, headers, URL and body", "431, 431, 414, 413 exactly, upstream 0", []suite{
		{dir: "proxy", names: "TestLimitsHoldToTheUnit TestLimitsHoldOverHTTP2 TestABodyOverTheBoundIsRefusedByItsLengthAndCostsNothing"},
	}},
	{"S13", "Slow clients, 200 of each kind", "all gone ≤ timeout + 1 s; a good client gets 100 % 200", []suite{
		{dir: "cmd/gateway", names: "TestSlowClientsAreLetGoAndHarmNobody"},
		{dir: "bench/conformance", names: "TestSlowhttptest"},
	}},
	{"S14", "Slow but honest readers and streams", "complete, 0 cut", []suite{
		{dir: "cmd/gateway", names: "TestSlowHonestReadersAndStreamsAreNotCut"},
	}},
	{"S15", "File descriptors run out", "recovers ≤ 2 s; /healthz 100 %", []suite{
		{dir: "cmd/gateway", names: "TestFileDescriptorsRunOut"},
	}},
	{"S16", "5 M unique keys", "memory ≤ cap; 0 permits lost or gained on 1,000 hot keys", []suite{
		{dir: "limit", names: "TestFloodOfKeysLosesNoPermitOfTheHotOnes"},
	}},
	{"S17", "Faults of upstreams, ≥ 30", "all the right status; a truncated answer never whole; nothing leaked", []suite{
		{dir: "proxy/upstream", names: "TestUpstreamFaultsAreToldApart TestFaultsOfHTTP2ServersAreToldApart TestNoConnectionIsABadGateway"},
		{dir: "proxy/upstream", names: "TestSilentUpstreamIsAGatewayTimeout TestUnasked101LeaksNothing TestErrorsLeaveNoGoroutine"},
		{dir: "proxy", names: "TestAnUnusableAnswerIs502 TestATruncatedAnswerNeverLooksComplete"},
	}},
	{"S18", "Retries", "1 charge a request; 0 POSTs of 1,000 sent twice", []suite{
		{dir: "proxy", names: "TestARetryIsChargedOnce TestAPostIsNeverSentTwice TestAnUpstreamThatClosesIdleConnectionsCosts502OnlyToPosts"},
	}},
	{"S19", "Our headers survive 103, duplicates, 101, trailers, HEAD, 304", "6 of 6 exactly one value", []suite{
		{dir: "proxy", names: "TestOurHeadersAreThereExactlyOnce"},
	}},
	{"S20", "WebSocket: 1,000 sessions, early bytes, vanished peers, half-close", "byte-equal; fds and goroutines ± 5", []suite{
		{dir: "cmd/gateway", names: "TestWebSocketSessionsAreByteEqualAndLeaveNothing"},
	}},
	{"S21", "gRPC interoperability", "all client cases", []suite{
		{dir: "bench/conformance", names: "TestGRPCInterop"},
	}},
	{"S22", "Exactness of the algorithms, ≥ 40 sets of numbers", "0 error, or refused", []suite{
		{dir: "limit", names: "TestManyNumbersAreExact TestADayAtFullDemandIsExact"},
	}},
	{"S23", "Live accuracy, 2 s at 4× the rate", "0 that pass too early, 0 refused when there was room", []suite{
		{dir: "cmd/gateway", names: "TestLiveDecisionsAreThoseOfTheRate"},
	}},
	{"S24", "First requests of 1,000 new keys from 64 goroutines each", "exactly the burst, 1,000 of 1,000", []suite{
		{dir: "limit", names: "TestFirstRequestsOfNewKeysPassExactlyTheBurst", race: true},
	}},
	{"S25", "Sweeps and evictions beside takes and refunds", "0 extra permits", []suite{
		{dir: "limit", names: "TestEverythingAtOnceKeepsTheLimit TestRequestsDuringASweepTakeFromOneState", race: true},
	}},
	{"S26", "Ledger: random takes, refunds, cancels, reloads", "invariants hold; linearizable", []suite{
		{dir: "limit", names: "TestNoHistoryLetsMoreThroughThanTheLimit"},
		{dir: "limit", names: "TestConcurrentHistoriesAreLinearizable", race: true},
	}},
	{"S27", "Refunds by client's fault: bad chunks, cancels, resets, early closes, 1,000 each", "0 refunds", []suite{
		{dir: "cmd/gateway", names: "TestClientFaultsGiveNothingBackAndAreNoServerErrors"},
	}},
	{"S28", "Clock: − 1 h, + 1 h, to and fro", "≤ burst extra, no lock-out > period", []suite{
		{dir: "limit", names: "TestAlternatingClockNeitherGrantsNorLocksOut"},
	}},
	{"S29", "Ways to save the file, 10 × 10", "100 of 100 applied", []suite{
		{dir: "reload", names: "TestEveryWayToSaveIsSeenEveryTime"},
		{dir: "cmd/gateway", names: "TestEverySaveIsActiveAtOnceUnderLoad"},
	}},
	{"S30", "Bad files, ≥ 40", "all refused, the old list serves, 0 requests fail", []suite{
		{dir: "cmd/gateway", names: "TestBrokenFilesChangeNothing"},
	}},
	{"S31", "Half-written files, 4 pauses × 25", "0 partial lists applied", []suite{
		{dir: "reload", names: "TestHalfAFileIsNotAppliedWhileItsWriterPausesForLessThanTheSettleTime TestHalfWrittenFileIsNeverAppliedWithinThePatience"},
	}},
	{"S32", "Storm of reloads", "0 failed, 0 mixed lists, goroutines ± 0, heap flat, debt kept", []suite{
		{dir: "cmd/gateway", names: "TestStormOfSavesEndsInTheLastOne TestReloadOnRequestAHundredTimesLeavesNothingBehind"},
		{dir: "proxy", names: "TestAThousandReloadsWithOpenSocketsLeaveTheHeapFlat"},
	}},
	{"S33", "Rule and upstream removed while in use", "50 of 50 finish", []suite{
		{dir: "cmd/gateway", names: "TestRequestsOfARemovedRuleAndUpstreamFinish"},
	}},
	{"S34", "Faults of the store: killed, hanging, slow, silent, refusing, a replica, full, another password, forbidden scripts; under load", "all outages, at most 3 requests wait; 0 requests fail; one execution a request", []suite{
		{dir: "limit/redis", names: "TestFaultsOfTheStore"},
		{dir: "cmd/gateway", names: "TestNoClientNoticesThatTheStoreIsAway"},
	}},
	{"S35", "Two gateways, one bucket, 10,000 requests", "admitted = limit", []suite{
		{dir: "limit/redis", names: "TestGatewaysWithSkewedClocksAdmitTheLimit"},
	}},
	{"S36", "Keys in the store", "0 without TTL", []suite{
		{dir: "limit/redis", names: "TestEveryKeyHasATimeToLive"},
		{dir: "cmd/gateway", names: "TestAKilledGatewayLeavesNothingThatLasts"},
	}},
	{"S37", "Certificates by ACME", "served in 200 of 200 handshakes", []suite{
		{dir: "proxy/certs", names: "TestCertificateComesThroughBadDays"},
		{dir: "proxy/certs", names: "TestCertificateComesThroughTheWorstDays", long: true},
	}},
	{"S38", "Random server names, 1,000", "0 orders", []suite{
		{dir: "proxy/certs", names: "TestRandomNamesOrderNothing"},
	}},
	{"S39", "Faults of the certificate store", "serves; keys 0600, folders 0700", []suite{
		{dir: "cmd/gateway", names: "TestFaultsOfStorage"},
	}},
	{"S40", "TLS scanners", "0 findings of severity ≥ MEDIUM", []suite{
		{dir: "cmd/gateway", names: "TestScannerFindsNothing"},
	}},
	{"S41", "Drain with 50 requests, 10 WebSockets and HTTP/2 in flight", "50 of 50, WebSockets ≤ grace, exit 0", []suite{
		{dir: "cmd/gateway", names: "TestDrainFinishesWhatIsInProgress"},
	}},
	{"S42", "Admin listener: exposure, CSRF, rebinding, 12 tries", "all refused", []suite{
		{dir: "cmd/gateway", names: "TestAdminRefusesOtherHostsAndOrigins"},
	}},
	{"S43", "Secrets in 10 places, 20 injections into the log", "0 leaks; 1 valid line a request", []suite{
		{dir: "proxy", names: "TestNoLineHoldsAKey TestEachRequestHasOneSoundLineWhateverIsInIt"},
		{dir: "cmd/gateway", names: "TestASecretComesOutNowhere"},
	}},
	{"S44", "100,000 odd methods, paths and keys", "number of series constant", []suite{
		{dir: "cmd/gateway", names: "TestSeriesDoNotGrowWithWhatClientsChoose"},
	}},
	{"S45", "Soak: 10 minutes of mixed faults", "goroutines and fds as one that has seen nothing, ± 8; RSS slope < 1 MB/min, 0 panics", []suite{
		{dir: "cmd/gateway", names: "TestSoakLeavesNothingBehind", long: true},
	}},
	{"S46", "Fuzzing of what reads clients' and operators' bytes", "0 crashers", []suite{
		{dir: "bench/conformance", names: "TestFuzzTargetsFindNothing", long: true},
	}},
	{"S47", "Static analysis, Go ≥ 1.26.6", "0 findings", []suite{
		{dir: "bench/conformance", names: "TestStaticAnalysisFindsNothing"},
	}},
}
