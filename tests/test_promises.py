"""Every sentence that `walflow check` prints of our connectors is held by a test, and these are the tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.bench import Bench
from connectors.cb import Cb
from connectors.crononome import Crononome
from connectors.dns import DnsClient
from connectors.exit import Exit
from connectors.file import File
from connectors.http import HttpClient, HttpServer
from connectors.kafka import KafkaConsumer, KafkaProducer
from connectors.kv import Kv
from connectors.memory import Memory
from connectors.metrics import MetricEvents
from connectors.metronome import Metronome
from connectors.mqtt import MqttPublisher, MqttSubscriber
from connectors.null import Null
from connectors.registry import SchemaRegistry
from connectors.spark import Spark
from connectors.stdio import Stdio
from connectors.tcp import TcpClient, TcpServer
from connectors.udp import UdpClient, UdpServer
from connectors.unix import UnixSocketClient, UnixSocketServer
from connectors.wal import Wal
from connectors.ws import WsClient, WsServer
from walflow.cli.levels import lost_state
from walflow.cli.promises import from_a_file, in_a_row
from walflow.contract import Connector, risk_name
from walflow.plan.assembly import StateDomain
from walflow.testing.sinks import SCENARIOS
from walflow.warnings import registered
from walflow_kernel.shipped import Keeping, ShippedPipeline, packed_text

TESTS = Path(__file__).parent

MADE: list[Connector] = [
    Bench(path="f"),
    Cb(),
    Crononome.model_validate({"entries": [{"name": "a", "expr": "0 0 0 30 2 *"}]}),
    Exit(),
    Exit(graceful=False),
    File(path="f", mode="read"),
    File(path="f", mode="read", follow=True),
    File(path="f", mode="truncate", sync="always"),
    File(path="f", mode="truncate", sync="never"),
    File(path="f", mode="overwrite", sync="always"),
    File(path="f", mode="overwrite", sync="never"),
    File(path="f", mode="append", sync="always"),
    File(path="f", mode="append", sync="never"),
    HttpClient(url="http://h/"),
    HttpClient.model_validate({"url": "http://h:1/", "token": "secret"}),
    HttpClient(url="http://h/", responses=True),
    HttpClient(url="http://h/", headers={"Authorization": "secret"}),
    HttpServer(url="127.0.0.1:1"),
    HttpServer.model_validate({"url": "0.0.0.0:1", "token": "secret", "answer": "taken"}),
    KafkaConsumer(brokers=("h",), topics=("t",), group_id="g"),
    KafkaProducer(brokers=("127.0.0.1",), topic="t"),
    KafkaProducer.model_validate(
        {
            "brokers": ["h"],
            "topic": "t",
            "sasl": {"username": "u", "password": "secret"},
            "tls": {"cert": "c", "key_password": "x"},
        }
    ),
    KafkaProducer.model_validate(
        {"brokers": ["h"], "topic": "t", "sasl": {"username": "u", "password": {"file": "f"}}}
    ),
    Memory(max_elements=10, max_bytes=1000),
    MetricEvents(),
    Metronome(interval=1),
    DnsClient(),
    Kv(path="store"),
    MqttPublisher(url="mqtt://h", topic="t"),
    MqttPublisher(url="mqtt://h", topic="t", qos=2),
    MqttPublisher(url="mqtt://h", topic="t", qos=0),
    MqttPublisher.model_validate({"url": "mqtt://h:1", "topic": "t", "username": "u", "password": "secret"}),
    MqttPublisher.model_validate({"url": "mqtts://h", "topic": "t", "tls": {"cert": "c", "key_password": "secret"}}),
    MqttSubscriber(url="mqtt://h", topics=("t",), client_id="c"),
    MqttSubscriber(url="mqtt://h", topics=("t",), client_id="c", qos=0),
    MqttSubscriber(url="mqtt://h", topics=("t",), client_id="c", qos=2),
    Null(),
    Spark(path="s"),
    Spark(path="s", pipeline=packed_text(ShippedPipeline("p", ("out",), {}, 0))),
    SchemaRegistry(url="http://h:1", mode="decode"),
    SchemaRegistry.model_validate(
        {"url": "http://h:1", "mode": "encode", "subject": "s", "username": "u", "password": "secret"}
    ),
    Spark(
        path="s", pipeline=packed_text(ShippedPipeline("p", ("out",), {}, 0, Keeping(8, b"", {}, False, "", None)))
    ),
    Spark(
        path="s", pipeline=packed_text(ShippedPipeline("p", ("out",), {}, 0, Keeping(1, b"", {}, False, "", "why")))
    ),
    Spark.model_validate(
        {"path": "s", "url": "0.0.0.0:1", "insecure": "a VPN", "token": "secret", "socket_url": "127.0.0.1:1"}
    ),
    Stdio(),
    TcpClient(url="h:1"),
    TcpClient(url="h:1", ack="echo"),
    TcpServer(url="127.0.0.1:1"),
    TcpServer(url="0.0.0.0:1"),
    UdpClient(url="h:1"),
    UdpServer(url="127.0.0.1:1"),
    UdpServer(url="0.0.0.0:1"),
    UnixSocketClient(path="s"),
    UnixSocketClient(path="s", ack="echo"),
    UnixSocketServer(path="s"),
    Wal(path="w"),
    Wal(path="w", chunk_size=1024),
    Wal(path="w", max_elements=10),
    Wal(path="w", sync="interval"),
    Wal(path="w", sync="never"),
    Wal(path="w", on_full="drop_oldest"),
    Wal(path="w", sync="interval", on_full="drop_oldest"),
    WsClient(url="h:1"),
    WsClient(url="h:1", ack="written"),
    WsClient(url="h:1", ack="message"),
    WsClient(url="h:1", ack="message", id_field="id"),
    WsClient.model_validate({"url": "h:1", "token": "secret"}),
    WsClient(url="h:1", headers={"Authorization": "secret"}),
    WsServer(url="127.0.0.1:1"),
    WsServer.model_validate({"url": "0.0.0.0:1", "token": "secret"}),
]

KILLS = "system/test_kill.py::test_twenty_kills_under_load"
RELAXED_KILLS = "system/test_kill.py::test_kills_under_load_where_acks_do_not_wait_for_the_disk"
DELIVERS = (
    "every event is sent to every sink that the pipelines choose for it, and again after a failure or a restart, until that "
    "sink has acked or rejected it. A sink may get it twice. "
)
FILE = "connectors/test_file.py::"
FOLLOW = "connectors/test_file_follow.py::"
OVERWRITE = "connectors/test_file_overwrite.py::"
CLIENT = "connectors/test_tcp_client.py::"
WS_CLIENT = "connectors/test_ws_client.py::"
WS_KILLS = "system/test_ws_kill.py::test_killed_under_load_every_event_"
WS_ECHO = "system/test_ws.py::test_messages_come_back_and_are_in_the_file"
HTTP_CLIENT = "connectors/test_http_client.py::"
KAFKA_CONSUMER = "connectors/test_kafka_consumer.py::"
KAFKA_PRODUCER = "connectors/test_kafka_producer.py::"
DNS = "connectors/test_dns_client.py::"
KV = "connectors/test_kv.py::"
REGISTRY = "connectors/test_schema_registry.py::"
MQTT = "connectors/test_mqtt.py::"
MQTT_KILLS = "system/test_mqtt.py::test_killed_under_load_every_message_that_a_broker_has_taken_arrives"
HTTP_SERVER = "connectors/test_http_server.py::"
HTTP_RESPONSES = "connectors/test_http_responses.py::"
HTTP_REPLIES = "connectors/test_http_replies.py::"
HTTP_KILLS = "system/test_http.py::test_killed_under_load_nothing_that_was_answered_with_200_is_missing"
APPEND = "connectors/test_file_append.py::"
SHARED = "connectors/test_file_shared.py::"
OTHERS_AT_THE_FILE = (
    f"{SHARED}test_what_went_to_a_file_without_a_name_is_written_again_before_it_is_acked",
    f"{SHARED}test_what_is_cut_off_right_after_its_sync_is_written_again",
    f"{SHARED}test_what_went_to_a_renamed_file_is_acked",
    f"{SHARED}test_what_is_appended_right_before_a_write_is_not_written_over",
)

# What a sentence begins with: the tests that would fail if it were not so.
WINDOWS_LOST = [
    "operators/test_windows.py::test_time_goes_on_from_the_last_event",
    "operators/test_windows.py::test_a_stop_closes_windows_only_if_asked",
    "system/test_windows.py::test_open_windows_are_dropped_at_a_stop_and_counted",
    "system/test_windows.py::test_open_windows_are_closed_at_a_stop_if_asked",
]
HELD = {
    "windows are in memory, and an event is acked once a window holds it. When walflow stops or dies, the open windows are lost": [
        *WINDOWS_LOST,
    ],
    "windows, and `state` of scripts, are in memory, and an event is acked once a window holds it. When walflow stops or dies": [
        *WINDOWS_LOST,
        "system/test_state.py::test_each_result_comes_and_each_event_counts_once_until_a_kill",
    ],
    "script `n` keeps `state` in memory, and an event is acked once it is in it. When walflow stops or dies, the state is lost": [
        "operators/test_stateful.py::test_an_event_is_acked_once_its_result_is_in_memory",
        "system/test_state.py::test_each_result_comes_and_each_event_counts_once_until_a_kill",
    ],
    "each event of f is sent until every sink has acked or rejected it, also after a crash of walflow.": [
        "system/test_file_follow.py::test_fifty_kills_and_nothing_is_skipped",
        f"{FOLLOW}test_a_restart_goes_on_behind_what_is_acked",
        f"{FOLLOW}test_what_is_acked_counts_from_the_beginning_on_only",
        f"{FOLLOW}test_what_a_sink_fails_is_read_again_in_order_and_other_files_go_on",
        f"{FOLLOW}test_it_reads_no_further_ahead_of_the_checkpoint_than_it_says",
        f"{FOLLOW}test_gone_while_it_was_down_is_said",
        f"{FOLLOW}test_removed_it_is_read_to_its_end",
    ],
    "f is read from its beginning at every start": [f"{FILE}test_it_reads_to_the_end_and_returns"],
    "an event is acked after it was written and fdatasync returned. So it survives a power cut, until the next start empties": [
        f"{FILE}test_when_it_syncs",
        "connectors/test_file_trouble.py::test_truncate_empties_once_and_keeps_what_others_write",
        *OTHERS_AT_THE_FILE,
    ],
    "an event is acked after it was written to the operating system: it survives a crash of walflow, not a power cut, "
    "until the next start empties": [
        f"{FILE}test_when_it_syncs",
        "connectors/test_file_trouble.py::test_truncate_empties_once_and_keeps_what_others_write",
        *OTHERS_AT_THE_FILE,
    ],
    "an event is acked after it was written and fdatasync returned. So it survives a power cut, until the next start writes": [
        f"{FILE}test_when_it_syncs",
        f"{OVERWRITE}test_every_start_begins_at_the_first_byte_and_leaves_what_is_behind",
        f"{OVERWRITE}test_after_a_kill_the_last_line_may_be_torn_and_goes_on_as_the_old_one",
        *OTHERS_AT_THE_FILE,
    ],
    "an event is acked after it was written to the operating system: it survives a crash of walflow, not a power cut, "
    "until the next start writes": [
        f"{FILE}test_when_it_syncs",
        f"{OVERWRITE}test_every_start_begins_at_the_first_byte_and_leaves_what_is_behind",
        f"{OVERWRITE}test_after_a_kill_the_last_line_may_be_torn_and_goes_on_as_the_old_one",
        *OTHERS_AT_THE_FILE,
    ],
    "every start overwrites f": [f"{OVERWRITE}test_every_start_begins_at_the_first_byte_and_leaves_what_is_behind"],
    "every start empties f": [
        "connectors/test_file_trouble.py::test_truncate_empties_once_and_keeps_what_others_write"
    ],
    "an event is acked after it was written and fdatasync returned. So it survives a power cut, until another": [
        f"{APPEND}test_nothing_is_acked_before_both_files_are_synced",
        f"{APPEND}test_killed_at_every_change_to_the_disk",
        f"{APPEND}test_power_cuts_at_every_moment",
        f"{APPEND}test_with_several_ways_from_the_log_nothing_is_skipped",
        f"{APPEND}test_a_block_that_lost_events_on_its_way_is_not_remembered",
        KILLS,
        *OTHERS_AT_THE_FILE,
        f"{SHARED}test_killed_at_every_change_while_it_finishes_the_renamed_file",
        "system/test_file_shared.py::test_renamed_and_killed_at_once_each_line_is_there_once",
        "system/test_file_shared.py::test_moved_elsewhere_and_killed_what_may_come_again_is_said",
    ],
    "an event is acked after it was written to the operating system: it survives a crash of walflow, not a power cut, "
    "until another": [
        f"{APPEND}test_killed_at_every_change_to_the_disk",
        f"{APPEND}test_without_sync_a_power_cut_cuts_nothing_and_ranges_are_not_believed",
        *OTHERS_AT_THE_FILE,
        f"{SHARED}test_renamed_after_a_kill_it_is_finished_under_its_new_name",
    ],
    "an event is made only while the flow accepts events": [
        "connectors/test_metronome.py::test_paused_it_makes_nothing_and_ids_have_no_gap",
        "connectors/test_metronome.py::test_ids_go_on_over_the_runs_of_a_process",
    ],
    "sends nothing": ["connectors/test_null.py::test_it_swallows_and_says_nothing"],
    "an event is acked and dropped": ["connectors/test_null.py::test_it_swallows_and_says_nothing"],
    "what reaches it is dropped": ["connectors/test_null.py::test_it_swallows_and_says_nothing"],
    "what was read from stdin cannot be read again": ["connectors/test_stdio.py::test_it_reads_to_the_end"],
    "an event is acked after it was written to its stream (stdout for the input `in`). Whether it was read is not known. Once the stream is closed, every": [
        "connectors/test_sink_promises.py::test_stdio[an_event_is_acked_after_it_has_arrived]",
        "connectors/test_stdio.py::test_stdout_closed_is_lost_and_nothing_else",
    ],
    "an event is acked after it was written to its stream (stdout for the input `in`). Whether it was read is not known. Once the stream is closed, no more": [
        "connectors/test_sink_promises.py::test_stdio[an_event_is_acked_after_it_has_arrived]",
        "attack/test_closed_console.py::test_head_ends_and_the_log_keeps_the_rest",
    ],
    "what was read from the peer cannot be read again": ["system/test_client.py::test_thirty_kills_of_either_side"],
    "an event is acked when it is in the kernel's buffer": [
        "connectors/test_tcp_client.py::test_written_is_acked_and_what_comes_is_events",
        "connectors/test_tcp_client.py::test_what_was_written_is_lost_with_a_peer_that_did_not_read_it",
    ],
    "a peer that dies loses events that it had not read": [
        "connectors/test_tcp_client.py::test_what_was_written_is_lost_with_a_peer_that_did_not_read_it"
    ],
    "an event is acked when the peer's WebSocket library has answered a ping sent after it": [
        "connectors/test_ws_acks.py::test_a_pong_acks_what_was_sent_before_its_ping_and_nothing_else",
        "connectors/test_ws_acks.py::test_a_pong_of_the_connection_before_acks_nothing",
        f"{WS_CLIENT}test_a_message_without_a_pong_behind_it_is_sent_again",
        f"{WS_KILLS}reaches_a_listener_that_answers_pings",
    ],
    "a pong comes from the peer's WebSocket library": [f"{WS_KILLS}reaches_a_listener_that_answers_pings"],
    "an event is acked when the peer has returned it": [
        "connectors/test_ws_acks.py::test_each_event_is_acked_once_whatever_order_they_come_back_in",
        f"{WS_CLIENT}test_sent_back_is_acked_and_the_rest_is_sent_again",
        f"{WS_CLIENT}test_an_event_that_does_not_come_back_fails_with_all_behind_it",
        f"{WS_KILLS}arrives_where_it_is_sent_back",
    ],
    "the token goes to h:1 without TLS": [f"{WS_CLIENT}test_what_is_warned_of"],
    "headers contain an Authorization": [f"{WS_CLIENT}test_what_is_warned_of"],
    "an event is acked when the peer has sent it back": [
        "net/test_acks.py::test_an_echo_acks_its_block_when_its_last_byte_is_there",
        "net/test_acks.py::test_what_was_echoed_is_not_failed",
        "connectors/test_sink_promises.py::test_tcp_echo[a_stop_within_a_block_fails_what_has_not_arrived]",
        f"{CLIENT}test_no_echo_in_time_is_a_loss",
        "system/test_client.py::test_thirty_kills_of_either_side",
    ],
    "an event that fails is lost: put a log upstream": [
        "connectors/test_sink_promises.py::test_tcp_echo[a_stop_within_a_block_fails_what_has_not_arrived]"
    ],
    "a request is answered with 200 once the log, or every sink if there is no log, has acked all its events": [
        f"{HTTP_SERVER}test_200_comes_only_after_the_last_ack",
        f"{HTTP_SERVER}test_what_fails_is_answered_with_503",
        f"{HTTP_SERVER}test_a_repeated_key_is_not_taken_again",
        f"{HTTP_SERVER}test_keys_are_forgotten_after_their_window",
        "connectors/test_http_keys.py::test_a_request_that_is_in_the_log_is_known",
        "nodes/test_build.py::test_a_source_with_another_sink_is_told_nothing",
        HTTP_KILLS,
    ],
    "an event that comes back is acked when it is in the answer of its request": [
        f"{HTTP_REPLIES}test_what_comes_back_is_the_answer_in_the_form_of_the_request",
        f"{HTTP_REPLIES}test_the_answer_waits_for_the_other_sinks",
        f"{HTTP_REPLIES}test_taken_does_not_wait_for_the_other_sinks",
        f"{HTTP_REPLIES}test_behind_a_log_without_an_answer_it_is_504_and_a_late_one_is_counted",
        f"{HTTP_REPLIES}test_what_comes_back_of_an_earlier_start_answers_no_request",
    ],
    "the events of a request are acked once those of its answer are": [
        f"{HTTP_RESPONSES}test_nothing_is_acked_before_its_answer_is",
        f"{HTTP_RESPONSES}test_an_answer_that_is_not_delivered_fails_the_request",
    ],
    "an event is acked when its request is answered with 2xx": [
        "connectors/promises/test_http.py::test_http[nothing_is_acked_before_it_has_arrived]",
        f"{HTTP_CLIENT}test_4xx_is_a_reject_with_the_first_line_of_its_body",
        f"{HTTP_CLIENT}test_what_may_be_answered_otherwise_later_is_sent_again_with_the_same_key",
        f"{HTTP_CLIENT}test_keys_are_of_the_log_and_the_position_and_stay_over_a_restart",
        "system/test_http.py::test_from_log_to_log_nothing_is_missing_when_the_receiver_is_killed",
    ],
    "an event is acked when all in-sync replicas of its partition have its message": [
        f"{KAFKA_PRODUCER}test_an_event_is_a_message_and_acked_after_its_report",
        f"{KAFKA_PRODUCER}test_of_a_block_the_event_that_no_broker_takes_is_rejected_alone",
        f"{KAFKA_PRODUCER}test_a_partition_that_does_not_exist_is_a_reject",
        f"{KAFKA_PRODUCER}test_what_a_broker_does_not_take_now_is_sent_again_in_its_place",
        f"{KAFKA_PRODUCER}test_what_is_too_large_together_is_sent_alone_before_it_is_rejected",
    ],
    "an event is acked when the broker has answered its message": [
        f"{MQTT}test_an_event_is_a_message_and_acked_after_its_answer",
        f"{MQTT}test_a_broker_that_dies_is_waited_for_and_gets_what_it_has_not_answered",
        MQTT_KILLS,
    ],
    "best effort: an event is acked when its message is in the kernel's buffer": [
        f"{MQTT}test_an_event_is_a_message_and_acked_after_its_answer"
    ],
    "with QoS 0 a message lost on its way is lost for good": [f"{MQTT}test_warnings"],
    "what the broker has not acked when walflow stops is lost": [
        "connectors/promises/test_brokers.py::test_mqtt[a_stop_in_trouble_fails_what_is_held]"
    ],
    "the password goes to h:1 without TLS": [f"{MQTT}test_warnings"],
    "each message with QoS 1 or 2 is sent until every sink has acked or rejected it, and only then": [
        f"{MQTT}test_the_broker_keeps_a_message_until_its_event_is_acked",
        f"{MQTT}test_what_a_sink_fails_is_sent_again_and_bad_messages_leave_by_err",
        f"{MQTT}test_after_a_kill_of_the_broker_it_goes_on_and_old_acks_mean_nothing",
        f"{MQTT}test_with_qos_2_a_message_does_not_come_again_after_a_broken_connection",
        MQTT_KILLS,
    ],
    "best effort: messages are lost while walflow is away": [
        f"{MQTT}test_qos_0_is_dropped_and_counted_where_the_flow_accepts_none"
    ],
    "with QoS 0 the broker keeps nothing for walflow": [
        f"{MQTT}test_qos_0_is_dropped_and_counted_where_the_flow_accepts_none"
    ],
    "what no broker has taken when walflow stops is lost": [
        f"{KAFKA_PRODUCER}test_when_it_stops_what_has_no_report_fails"
    ],
    "the password stands in the flow file": [f"{KAFKA_PRODUCER}test_warnings"],
    "the key_password stands in the flow file": [f"{KAFKA_PRODUCER}test_warnings"],
    "the brokers are asked to check the password without TLS": [f"{KAFKA_PRODUCER}test_warnings"],
    "each message is sent until every sink has acked or rejected it, also after a failure of a sink.": [
        f"{KAFKA_CONSUMER}test_an_offset_is_committed_when_all_before_it_are_settled",
        f"{KAFKA_CONSUMER}test_what_a_sink_fails_is_sent_again_before_newer_events",
        f"{KAFKA_CONSUMER}test_a_breaker_pauses_it_and_the_group_keeps_it",
        f"{KAFKA_CONSUMER}test_another_member_gets_what_is_not_acked_and_no_event_that_is",
    ],
    "what has no answer when walflow stops is lost": [f"{HTTP_CLIENT}test_when_it_stops_what_has_no_answer_fails"],
    "a request is answered with 202 once its events are in the flow": [
        f"{HTTP_SERVER}test_202_does_not_wait_for_acks",
        f"{HTTP_SERVER}test_a_repeated_key_is_not_taken_again",
        KILLS,
    ],
    "202 is answered before the events are acked": [f"{HTTP_SERVER}test_202_does_not_wait_for_acks"],
    "what a client has sent is safe once a log has acked it": [
        WS_ECHO,
        "system/test_order.py::test_nothing_is_echoed_before_its_sync_returned",
        KILLS,
    ],
    "an event is acked when it is written to the client's socket, or waits for a client that is slow to read": [
        "system/test_mute.py::test_a_mute_client_is_closed_and_the_others_get_all_their_echoes",
        "attack/test_unread.py::test_clients_that_do_not_read_stop_nobody",
        "attack/test_unread.py::test_they_are_closed_after_write_timeout",
        KILLS,
    ],
    "0.0.0.0:1 is open to the network without TLS": [
        "system/test_tls.py::test_open_to_the_network_is_said_unless_there_is_a_reason"
    ],
    f"{DELIVERS}It is never lost": [
        "delivery/test_delivery.py::test_identity_survives_a_restart",
        "system/test_fanout.py::test_fifty_failures_of_one_sink_are_not_seen_by_the_other",
        "delivery/test_drop_oldest.py::test_the_oldest_file_goes_and_sources_go_on",
        KILLS,
    ],
    f"{DELIVERS}It is lost only with what a power cut takes from the log": [
        "wal/test_relaxed.py::test_the_power_may_be_cut_at_any_operation",
        "delivery/test_modes.py::test_a_killed_process_loses_nothing_and_gives_no_position_out_twice",
        "delivery/test_drop_oldest.py::test_the_oldest_file_goes_and_sources_go_on",
        RELAXED_KILLS,
    ],
    "an event is acked after its bytes were written to the operating system: it survives a crash of walflow, and a power "
    "cut once the sync is done": [
        "delivery/test_modes.py::test_with_interval_an_ack_means_written_and_the_sync_follows_on_the_thread",
        "wal/test_relaxed.py::test_the_power_may_be_cut_at_any_operation",
        RELAXED_KILLS,
    ],
    "an event is acked after its bytes were written to the operating system: it survives a crash of walflow, not a power "
    "cut before the kernel has written it": [
        "delivery/test_modes.py::test_with_never_nothing_is_synced_until_the_log_is_closed",
        "wal/test_relaxed.py::test_the_process_may_be_killed_at_any_operation_and_nothing_is_lost",
        RELAXED_KILLS,
    ],
    "each event that comes here from first is appended once, also after kill -9 or a power cut": [
        "delivery/test_arriving_model.py::test_each_event_is_in_the_second_log_once",
        "delivery/test_known_arrivals.py::test_what_the_first_log_sends_again_is_not_appended_again",
        "system/test_in_a_row.py::test_killed_twice",
        "system/test_in_a_row.py::test_killed_again_and_again",
    ],
    "each event that comes here from lines is appended once, also after kill -9": [
        "delivery/test_arriving_files.py::test_each_line_is_in_the_log_once",
        "delivery/test_arriving_files.py::test_what_is_called_known_was_appended",
        "system/test_follow_once.py::test_killed_twice",
        "system/test_follow_once.py::test_killed_again_and_again",
    ],
    "an event is acked after its bytes were written to the log and fdatasync returned": [
        "delivery/test_delivery.py::test_an_event_is_acked_upstream_once_it_is_on_disk_and_only_then_goes_on",
        "system/test_order.py::test_nothing_is_echoed_before_its_sync_returned",
        "system/test_order.py::test_without_the_sync_this_is_seen",
    ],
    "made for tests: every event is sent once, and its ack or fail is written to stderr": [
        "connectors/test_cb.py::test_all_answers_came",
        "connectors/test_cb.py::test_time_is_up",
    ],
    "made for tests: an event is acked, failed or left unanswered": [
        "connectors/test_cb.py::test_it_does_as_the_event_says"
    ],
    "made for measuring: an event that a sink fails is not sent again": [
        "connectors/test_bench.py::test_each_line_as_often_as_asked_for",
        "connectors/test_bench.py::test_in_a_flow_through_a_log_all_that_is_left_by_a_filter_is_measured_once",
    ],
    "made for measuring: an event is acked, measured and dropped": [
        "connectors/test_bench.py::test_what_comes_in_the_warm_up_is_acked_and_does_not_count",
        "connectors/test_bench.py::test_in_a_flow_through_a_log_all_that_is_left_by_a_filter_is_measured_once",
    ],
    "no event is made for a time at which the flow accepts none": [
        "connectors/test_crononome.py::test_in_a_pause_nothing_is_made_and_nothing_is_made_up",
        "connectors/test_crononome.py::test_a_clock_set_ahead_or_a_machine_that_slept_makes_one_event_late",
    ],
    "the time of entry 'a' never comes": ["connectors/test_crononome.py::test_what_it_says_of_itself"],
    "best effort: the kernel drops datagrams that arrive while the flow accepts none, or faster than walflow reads them": [
        "connectors/test_udp_server.py::test_in_a_pause_the_kernel_drops_and_it_is_counted_and_said",
        "connectors/test_udp_server.py::test_a_flood_on_a_daemon_is_in_the_file_or_counted",
    ],
    "best effort: an event is acked when the operating system has its datagram": [
        "connectors/test_udp_client.py::test_each_event_is_a_datagram",
        "connectors/test_udp_client.py::test_refusals_are_counted_and_said_and_stop_nothing",
        "connectors/test_udp_client.py::test_what_the_system_does_not_take_is_held_and_sent_in_order",
    ],
    "a datagram lost on its way is lost for good, because a log deletes what is acked": [
        "connectors/test_udp_client.py::test_refusals_are_counted_and_said_and_stop_nothing"
    ],
    "0.0.0.0:1 is open to the network, and UDP has no TLS": ["connectors/test_udp_server.py::test_what_is_warned_of"],
    "the log in w takes up to 1,073,741,824 bytes on disk and 10 events, then it stops its sources": [
        "delivery/test_bounds.py::test_the_log_holds_no_more_events_than_it_may"
    ],
    "every event is sent to every sink that the pipelines choose for it, and again after a failure, until that sink has acked "
    "or rejected it. A sink may get it twice. Events that are in memory when walflow stops or dies are lost": [
        "connectors/test_memory.py::test_what_failed_comes_again_before_what_is_newer",
        "connectors/test_memory.py::test_what_is_lost_with_it_is_said",
    ],
    "an event is acked once it is in memory": [
        "connectors/test_memory.py::test_what_is_stored_is_acked_at_once_and_goes_on"
    ],
    "it holds up to 10 events and 1,000 bytes in memory": [
        "connectors/test_memory.py::test_it_stops_its_sources_at_its_bound_and_holds_what_comes_all_the_same",
        "connectors/test_memory.py::test_the_bound_in_bytes",
    ],
    "an event is acked, and the daemon drains and stops": [
        "connectors/test_exit.py::test_an_event_stops_the_daemon",
        "flows/test_flows.py::test_flow",
    ],
    "an event is acked, and the daemon stops at once": [
        "connectors/test_exit.py::test_an_event_stops_the_daemon",
        "flows/test_flows.py::test_flow",
    ],
    "the log in w takes up to 1,073,741,824 bytes on disk, then it stops its sources": [
        "delivery/test_delivery.py::test_a_full_log_triggers_holds_and_resumes"
    ],
    "the log in w takes up to 16,384 bytes on disk, then it stops its sources": [
        "delivery/test_delivery.py::test_a_full_log_triggers_holds_and_resumes"
    ],
    "the log in w takes up to 1,073,741,824 bytes on disk, then its oldest file is dropped": [
        "delivery/test_drop_oldest.py::test_the_oldest_file_goes_and_sources_go_on"
    ],
    "an event is acked once it is in the log and fdatasync returned, and stays there until spark has committed it": [
        "connectors/spark/test_spark.py::test_what_is_logged_is_acked_and_stays_over_a_restart",
        "connectors/spark/test_consumers.py::test_whatever_happens_nothing_uncommitted_is_acked",
        "system/test_spark_kill.py::test_ten_kills_while_spark_reads_and_commits",
    ],
    "each batch of a query on Spark is taken once": [
        "connectors/spark/results/test_results.py::test_a_batch_is_published_once",
        "connectors/spark/results/test_results.py::test_it_is_known_after_a_restart",
        "system/test_spark_pipeline.py::test_each_window_once_and_right_across_kills_of_spark_and_of_the_daemon",
    ],
    "the pipeline runs on Spark. An event leaves it at the end of the batch": [
        "system/test_spark_engine.py::test_the_same_files_in_the_same_order",
        "system/test_spark_engine.py::test_after_kill_9_nothing_is_missing",
    ],
    "127.0.0.1:1 gives each event at most once to Spark's own socket source": [
        "system/test_plain_socket.py::test_kills_repeat_nothing",
        "connectors/spark/socket/test_plain.py::test_a_crash_repeats_nothing",
    ],
    "the log in s takes up to 1,073,741,824 bytes on disk, then it stops its sources": [
        "connectors/spark/test_spark.py::test_a_full_log_stops_its_sources_until_the_slowest_has_committed"
    ],
    "the token stands in the flow file": [
        "connectors/spark/test_spark.py::test_what_check_says",
        f"{WS_CLIENT}test_what_is_warned_of",
    ],
    "a chunk_size of 1,024 bytes costs a new file for every 1,024 bytes logged": [
        "delivery/test_delivery.py::test_a_full_log_triggers_holds_and_resumes"
    ],
    "counters and gauges of the daemon are sent every": [
        "connectors/test_metrics.py::test_a_flow_that_accepts_nothing_gets_the_next_values_and_not_all_that_were_missed",
    ],
    "the event of a command is acked once its answer is": [
        f"{KV}test_a_command_is_acked_with_its_answer_and_fails_with_it",
    ],
    "a command is carried out and on disk before it is answered": [
        f"{KV}test_what_was_answered_is_there_after_another_start",
        "system/test_kv_dns.py::test_what_was_answered_is_in_the_store_after_kill_9",
    ],
    "the event of a lookup is acked once its answer is": [
        f"{DNS}test_records_by_type_and_addresses_without_one",
    ],
    "a name that does not exist, or has no record of the type, is rejected": [
        f"{DNS}test_what_has_no_answer_ever_leaves_by_err",
        f"{DNS}test_a_name_without_an_answer_fails_alone_once_others_have_theirs",
    ],
    "an event is acked once what was made of it is": [
        f"{REGISTRY}test_values_come_out_by_the_schema_that_each_names_and_a_schema_is_asked_for_once",
        f"{REGISTRY}test_a_failure_behind_it_fails_the_events_that_it_came_from",
    ],
    "an event whose schema the registry does not know, or that is not of its schema, is rejected": [
        f"{REGISTRY}test_what_can_never_be_read_is_rejected_and_its_neighbours_pass",
        f"{REGISTRY}test_while_the_registry_is_away_events_are_held_and_what_is_known_passes",
        "system/test_schema_registry.py::test_messages_wait_for_a_registry_that_is_away",
    ],
    "events that are held when walflow stops are lost": [
        "connectors/promises/test_answers.py::test_registry[a_stop_in_trouble_fails_what_is_held]",
    ],
    "lookups that are not answered when walflow stops are lost": [
        f"{DNS}test_one_lookup_that_waits_holds_up_no_other",
    ],
}


# Promises that only a page makes, as it has them.
SESSION = "connectors/spark/serve/test_session.py::"
STREAM = "pyspark_walflow/test_stream.py::"
READER = "pyspark_walflow/test_reader.py::"
WRITTEN = {
    ("reference/spark.md", "A second query is refused after 3 s, with both named"): [
        f"{SESSION}test_two_checkpoints_on_one_consumer_are_told_of_each_other",
        f"{READER}test_a_second_query_is_refused_soon_and_told_of_both",
        "pyspark_walflow/test_bad_input.py::test_a_stream_says_what_is_wrong",
    ],
    ("reference/spark.md", "So is a query that reads the stream of one consumer twice"): [
        f"{STREAM}test_a_query_that_reads_one_consumer_twice_is_refused_and_gives_it_back",
    ],
    ("reference/spark.md", "A query that ends or fails gives its consumer back."): [
        f"{STREAM}test_a_query_that_reads_one_consumer_twice_is_refused_and_gives_it_back",
        "system/test_spark_standstill.py::test_a_lease_whose_holder_died_while_the_daemon_stood_still_is_given_back",
    ],
    ("reference/spark.md", "A consumer belongs to the checkpoint that has committed for it."): [
        f"{SESSION}test_a_consumer_belongs_to_the_checkpoint_that_committed",
        f"{READER}test_a_new_checkpoint_is_refused_where_another_one_has_committed",
        f"{STREAM}test_a_new_checkpoint_with_the_output_of_an_old_one_loses_nothing",
    ],
    ("reference/spark.md", "`committed`: the first position that the consumer has not committed"): [
        f"{READER}test_a_new_checkpoint_that_is_accepted_begins_behind_what_its_consumer_has",
        f"{STREAM}test_where_a_new_query_begins",
    ],
    ("reference/spark.md", "`CREATE TABLE lake USING walflow OPTIONS (…)`"): [f"{STREAM}test_sql_reads_it"],
    ("reference/spark.md", "If that Python has no walflow, Spark says `DATA_SOURCE_NOT_FOUND`."): [
        "pyspark_walflow/test_installed.py::test_a_python_that_spark_was_not_told_of",
    ],
    ("howto/spark-pipeline.md", "Below that level no line has the text of an error that may quote an event"): [
        "connectors/spark/job/test_driver_log.py::test_what_an_event_held_is_for_debugging_alone",
        "pyspark_walflow/test_condense.py::test_what_an_event_held_is_not_told",
        "system/test_spark_mistakes.py::test_an_event_that_does_not_fit_is_in_no_line",
    ],
    ("reference/windows.md", "so windows keep their length"): [
        "delivery/test_clock.py::test_windows_behind_a_log_keep_their_length_when_the_clock_is_set_back",
        "operators/test_windows.py::test_a_clock_that_is_set_back_makes_no_window_shorter",
        "wal/test_log_time.py::test_it_is_the_wall_clock_or_goes_on_with_the_monotonic_one",
    ],
    ("concepts/log.md", "the log stops with one line and exit code 74, before the next ack"): [
        "system/test_two_daemons.py::test_a_log_whose_directory_is_another_one_acks_nothing",
        "wal/test_lock.py::test_work_at_a_directory_that_is_another_one_ends_the_log",
    ],
    ("concepts/log.md", "`LOCK` is made again if it is removed"): [
        "system/test_two_daemons.py::test_a_second_daemon_on_a_log_is_refused",
    ],
    ("reference/windows.md", "Time in a log never goes back"): [
        "wal/test_log.py::test_time_in_a_log_never_goes_back",
        "wal/test_log.py::test_nor_over_a_restart_with_a_clock_that_was_set_back",
        "delivery/test_delivery.py::test_what_goes_on_is_never_older_than_what_went_before_also_after_a_restart",
    ],
    ("reference/windows.md", "An event is still taken if it closes its window, or if it only changes numbers."): [
        "compile/test_windows.py::test_windows_take_no_more_than_their_bytes_until_some_are_closed",
        "compile/test_windows.py::test_an_event_that_adds_no_bytes_is_taken_also_where_there_is_no_room",
    ],
    ("reference/windows.md", "gives their results in parts of about 4 MiB, and waits for room between two parts"): [
        "operators/test_windows.py::test_a_tick_of_many_windows_leaves_in_parts_that_wait_for_room",
        "operators/test_windows.py::test_at_a_stop_windows_are_closed_in_parts_that_wait_for_room",
    ],
    ("howto/spark-pipeline.md", "The variable of `token` is never passed."): [
        "connectors/spark/job/test_driver.py::test_the_driver_gets_what_spark_reads_and_what_the_flow_names_and_no_secret",
    ],
    ("reference/spark-protocol.md", "reads what came meanwhile before it judges"): [
        "system/test_spark_standstill.py::test_a_proof_that_came_while_the_daemon_stood_still_is_in_time",
    ],
}


def sentences() -> Iterator[str]:
    yield in_a_row("first")
    yield from_a_file("lines")
    yield lost_state(StateDomain(frozenset(), ("n",), "err", ()))
    yield lost_state(StateDomain(frozenset(), ("in//0",), "err", ()))
    yield lost_state(StateDomain(frozenset(), ("n", "in//0"), "err", ()))
    for connector in MADE:
        for behind_log in (True, False):
            guarantee = connector.guarantee(behind_log=behind_log)
            yield from filter(None, (guarantee.source, guarantee.sink, *guarantee.warnings, *guarantee.notes))


def test_each_sentence_is_held_by_one_entry() -> None:
    said = sorted(set(sentences()))
    assert [one for one in said if sum(map(one.startswith, HELD)) != 1] == []


@pytest.mark.parametrize(("page", "sentence"), sorted(WRITTEN))
def test_a_page_says_so(page: str, sentence: str) -> None:
    assert sentence in " ".join((TESTS.parent / "docs" / page).read_text().split())


def test_the_tests_that_hold_them_exist() -> None:
    held = {name for names in [*HELD.values(), *WRITTEN.values()] for name in names}
    texts = {file: (TESTS / file).read_text() for file in {name.partition("::")[0] for name in held}}
    gone = [name for name in held if not _has(texts[name.partition("::")[0]], name.partition("::")[2])]
    assert gone == []


def _has(text: str, function: str) -> bool:
    """A test, or a scenario of the suite that every sink must pass."""
    name, _, scenario = function.rstrip("]").partition("[")
    if scenario:
        return scenario in SCENARIOS and re.search(rf"^{name} = sink_promises\(", text, re.MULTILINE) is not None
    return re.search(rf"^(async )?def {name}\(", text, re.MULTILINE) is not None


WITH_SECRETS: list[Connector] = [
    KafkaProducer.model_validate(
        {
            "brokers": ["h:1"],
            "topic": "t",
            "tls": {"cert": "c", "key_password": "s"},
            "sasl": {"username": "u", "password": "s"},
        }
    ),
    KafkaProducer.model_validate({"brokers": ["h:1"], "topic": "t", "sasl": {"username": "u", "password": "s"}}),
    MqttPublisher.model_validate({"url": "mqtt://h", "topic": "t", "username": "u", "password": "s"}),
    MqttPublisher.model_validate({"url": "mqtts://h", "topic": "t", "tls": {"cert": "c", "key_password": "s"}}),
]


@pytest.mark.parametrize("connector", [*MADE, *WITH_SECRETS], ids=repr)
def test_each_warning_has_a_name_by_which_a_flow_permits_it(connector: Connector) -> None:
    for behind_log in (True, False):
        warnings = connector.guarantee(behind_log=behind_log).warnings
        assert [one for one in warnings if risk_name(one) == "risk" or risk_name(one) not in registered()] == []


def test_no_entry_is_left_over() -> None:
    said = set(sentences())
    assert [beginning for beginning in HELD if not any(one.startswith(beginning) for one in said)] == []
