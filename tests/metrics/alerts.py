"""For every alert: series, when it fires, and what is close to it and must not fire. Series are written as promtool does: one value a minute.

`0+10x30` is 0, 10, 20 ... for 31 minutes; `5x30` is 5 for 31 minutes.
"""

P = 'namespace="shop",processor="totals",pod="totals-0"'
POD = 'namespace="shop",pod="totals-0"'
GROUP = 'namespace="shop",group="shop.totals",pod="totals-0"'
ONE, OTHER = 'namespace="millstream-system",pod="a"', 'namespace="millstream-system",pod="b"'
OPERATOR = 'namespace="millstream-system",controller="streamprocessors"'

# (alert, what happens, {series: values}, minute, labels of the alert that fires or None: it is silent)
CASES = [
    ("MillstreamFallsBehind", "the lag grows", {f"millstream_lag_records{{{P}}}": "1000+500x60"}, 40, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamFallsBehind", "the lag of two pods grows in sum", {f"millstream_lag_records{{{P}}}": "800+50x60",
                                                                  'millstream_lag_records{namespace="shop",processor="totals",pod="totals-1"}': "700x60"},
     40, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamFallsBehind", "a large lag gets smaller", {f"millstream_lag_records{{{P}}}": "100000-500x60"}, 40, None),
    ("MillstreamFallsBehind", "a small lag grows", {f"millstream_lag_records{{{P}}}": "0+10x60"}, 40, None),
    ("MillstreamFallsBehind", "a burst that is caught up with", {f"millstream_lag_records{{{P}}}": "0x10 50000-5000x10 0x40"}, 30, None),

    ("MillstreamStandsStill", "nothing is committed", {f"millstream_lag_records{{{P}}}": "5x40", f"millstream_records_total{{{P}}}": "100x40"},
     25, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamStandsStill", "it works", {f"millstream_lag_records{{{P}}}": "5x40", f"millstream_records_total{{{P}}}": "100+60x40"}, 25, None),
    ("MillstreamStandsStill", "there is nothing to do", {f"millstream_lag_records{{{P}}}": "0x40", f"millstream_records_total{{{P}}}": "100x40"}, 25, None),
    ("MillstreamStandsStill", "it is paused", {f"millstream_lag_records{{{P}}}": "5x40", f"millstream_records_total{{{P}}}": "100x40",
                                               f'millstream_condition{{{P},reason="Paused"}}': "1x40"}, 25, None),
    ("MillstreamStandsStill", "it was paused once", {f"millstream_lag_records{{{P}}}": "5x40", f"millstream_records_total{{{P}}}": "100x40",
                                                     f'millstream_condition{{{P},reason="Paused"}}': "1x5 0x40"}, 25, {"namespace": "shop", "processor": "totals"}),

    ("MillstreamTaskStopped", "a task stops", {f'millstream_tasks{{{P},state="stopped"}}': "0x5 1x10", f'millstream_tasks{{{P},state="running"}}': "4x5 3x10"},
     8, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamTaskStopped", "all run", {f'millstream_tasks{{{P},state="stopped"}}': "0x20", f'millstream_tasks{{{P},state="running"}}': "4x20"}, 8, None),

    ("MillstreamCondition", "brokers are away", {f'millstream_condition{{{P},reason="BrokersUnreachable"}}': "1x20"},
     15, {"namespace": "shop", "processor": "totals", "reason": "BrokersUnreachable"}),
    ("MillstreamCondition", "they were away for a moment", {f'millstream_condition{{{P},reason="BrokersUnreachable"}}': "1x5 0x20"}, 4, None),
    ("MillstreamCondition", "somebody paused it", {f'millstream_condition{{{P},reason="Paused"}}': "1x20"}, 15, None),

    ("MillstreamDeadLetters", "letters", {f"millstream_dead_letters_total{{{P}}}": "0x10 3x20"}, 12, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamDeadLetters", "letters long ago", {f"millstream_dead_letters_total{{{P}}}": "0x10 3x60"}, 40, None),

    ("MillstreamRecordsSkipped", "skipped", {f"millstream_records_skipped_total{{{P}}}": "0x10 3x20"}, 12, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamRecordsSkipped", "none", {f"millstream_records_skipped_total{{{P}}}": "3x30"}, 12, None),

    ("MillstreamWorkerCrashes", "again and again", {f"millstream_worker_crashes_total{{{P}}}": "0+1x30"}, 20, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamWorkerCrashes", "once", {f"millstream_worker_crashes_total{{{P}}}": "0x5 1x30"}, 20, None),

    ("MillstreamTransactionsAborted", "half of them", {f"millstream_transactions_aborted_total{{{P}}}": "0+10x40", f"millstream_transactions_total{{{P}}}": "0+10x40"},
     30, {"namespace": "shop", "processor": "totals"}),
    ("MillstreamTransactionsAborted", "one in a hundred", {f"millstream_transactions_aborted_total{{{P}}}": "0+10x40", f"millstream_transactions_total{{{P}}}": "0+1000x40"},
     30, None),
    ("MillstreamTransactionsAborted", "a few of a few", {f"millstream_transactions_aborted_total{{{P}}}": "0x20 3x20", f"millstream_transactions_total{{{P}}}": "0x20 4x20"},
     30, None),

    ("MillstreamRestoresLong", "for 40 minutes", {f"millstream_restoring_tasks{{{POD}}}": "2x60"}, 40, {"namespace": "shop", "pod": "totals-0"}),
    ("MillstreamRestoresLong", "for 10 minutes", {f"millstream_restoring_tasks{{{POD}}}": "2x10 0x50"}, 9, None),

    ("MillstreamStateRebuilt", "a disk is not used", {f"millstream_state_wiped_total{{{POD}}}": "0x10 1x30"}, 20, {"namespace": "shop", "pod": "totals-0"}),
    ("MillstreamStateRebuilt", "by a new pod", {f"millstream_state_wiped_total{{{POD}}}": "1x30"}, 20, {"namespace": "shop", "pod": "totals-0"}),
    ("MillstreamStateRebuilt", "one more", {f"millstream_state_wiped_total{{{POD}}}": "1x100 2x60"}, 120, {"namespace": "shop", "pod": "totals-0"}),
    ("MillstreamStateRebuilt", "long ago", {f"millstream_state_wiped_total{{{POD}}}": "1x100"}, 90, None),
    ("MillstreamStateRebuilt", "never", {f"millstream_state_wiped_total{{{POD}}}": "0x100"}, 20, None),

    ("MillstreamGroupUnsteady", "every minute", {f"millstream_group_rebalances_total{{{GROUP}}}": "0+1x60"}, 50, {"namespace": "shop", "group": "shop.totals"}),
    ("MillstreamGroupUnsteady", "a rolling update", {f"millstream_group_rebalances_total{{{GROUP}}}": "0+1x6 6x60"}, 20, None),

    ("MillstreamProcessorsStalled", "one of five", {'millstream_operator_processors{namespace="millstream-system",condition="Ready",status="True"}': "4x30",
                                                     'millstream_operator_processors{namespace="millstream-system",condition="Stalled",status="True"}': "1x30"},
     10, {"namespace": "millstream-system"}),
    ("MillstreamProcessorsStalled", "one that is not ready", {'millstream_operator_processors{namespace="millstream-system",condition="Ready",status="False"}': "1x30"}, 10, None),

    ("MillstreamOperatorGone", "nobody leads", {f"millstream_operator_info{{{ONE}}}": "1x60", f"millstream_operator_leader{{{ONE}}}": "1x20 0x40"},
     40, {"namespace": "millstream-system"}),
    ("MillstreamOperatorGone", "it is not there any more", {f"millstream_operator_info{{{ONE}}}": "1x20", f"millstream_operator_leader{{{ONE}}}": "1x20"},
     40, {"namespace": "millstream-system"}),
    ("MillstreamOperatorGone", "another one leads", {f"millstream_operator_info{{{ONE}}}": "1x20", f"millstream_operator_leader{{{ONE}}}": "1x20",
                                                     f"millstream_operator_info{{{OTHER}}}": "1x60", f"millstream_operator_leader{{{OTHER}}}": "0x25 1x35"}, 40, None),

    ("MillstreamOperatorFails", "again and again", {f'millstream_operator_reconcile_total{{{OPERATOR},result="error"}}': "0+5x40"}, 30, {"namespace": "millstream-system"}),
    ("MillstreamOperatorFails", "conflicts, which are normal", {f'millstream_operator_reconcile_total{{{OPERATOR},result="conflict"}}': "0+5x40",
                                                               f'millstream_operator_reconcile_total{{{OPERATOR},result="success"}}': "0+50x40"}, 30, None),

    ("MillstreamOperatorLacksRights", "a role was forgotten",
     {'millstream_operator_api_calls_total{namespace="millstream-system",verb="patch",resource="pods",code="403"}': "0+1x40"}, 35,
     {"namespace": "millstream-system", "verb": "patch", "resource": "pods"}),
    ("MillstreamOperatorLacksRights", "calls that succeed, and conflicts",
     {'millstream_operator_api_calls_total{namespace="millstream-system",verb="patch",resource="pods",code="200"}': "0+1x40",
      'millstream_operator_api_calls_total{namespace="millstream-system",verb="patch",resource="pods",code="409"}': "0+1x40"}, 35, None),

    ("MillstreamOperatorHangs", "a pass does not end", {f"millstream_operator_longest_pass_seconds{{{OPERATOR}}}": "0+60x30"}, 20, {"namespace": "millstream-system"}),
    ("MillstreamOperatorHangs", "passes of a second", {f"millstream_operator_longest_pass_seconds{{{OPERATOR}}}": "1x30"}, 20, None),

    ("MillstreamOperatorBusy", "a queue that stays long", {f"millstream_operator_queue_depth{{{OPERATOR}}}": "500x40"}, 30, {"namespace": "millstream-system"}),
    ("MillstreamOperatorBusy", "after an upgrade", {f"millstream_operator_queue_depth{{{OPERATOR}}}": "500-50x10 0x30"}, 30, None),
]
